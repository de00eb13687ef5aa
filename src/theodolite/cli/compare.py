"""theodolite compare: several surveys on one set of axes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk
from theodolite.cli.study_options import DefaultPopulation


def compare(
    surveys: Annotated[list[Path], typer.Argument(help="Folders of finished surveys.")],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .png, .svg or .pdf for the figure; .csv, .md or .json for the numbers; or a "
            "folder for all of them.",
            callback=on_disk,
        ),
    ],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of layers.parquet, or norm_of_mean, the norm of the mean; may be repeated. Default: a "
            "selection of measures."
        ),
    ] = None,
    population: DefaultPopulation = "auto",
    depth: Annotated[
        str, typer.Option(help="Axis of layers: normalised (1 at the last block) or layer (their number).")
    ] = "normalised",
) -> None:
    """Plot several surveys on the same axes, one panel per measure."""
    from theodolite.api.figures import compare_with_cautions
    from theodolite.cli.console import Printer, print_result
    from theodolite.exhibits.compare import save_comparison
    from theodolite.studies.choice import Choice
    from theodolite.studies.reading import read_survey_data

    choice = Choice(population, depth=depth)
    read = [read_survey_data(folder, ("layers", "jackknife")) for folder in surveys]
    plate, cautions = compare_with_cautions(read, measure or (), choice)
    for caution in cautions:
        Printer().warn(caution)
    for file in save_comparison(plate, out):
        print_result(f"compare: {file}")
