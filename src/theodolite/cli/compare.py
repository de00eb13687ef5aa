"""theodolite compare: several surveys on one set of axes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk


def compare(
    surveys: Annotated[list[Path], typer.Argument(help="Folders of surveys, as many as you like.")],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .png, .svg, .pdf, or .csv, .md, .json of the numbers; or a folder for all.",
            callback=on_disk,
        ),
    ],
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Column of layers.parquet, or mean_norm; once for each. Default: a handful."),
    ] = None,
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    depth: Annotated[
        str, typer.Option(help="Axis of layers: normalised, 1 at the last block, or layer, their number.")
    ] = "normalised",
) -> None:
    """Put several surveys on one set of axes, a panel a measure."""
    from theodolite.cli.console import result
    from theodolite.exhibits.compare import compare as compared
    from theodolite.exhibits.compare import save_comparison
    from theodolite.studies.choice import Choice
    from theodolite.studies.reading import read

    choice = Choice(population, depth=depth)
    plate = compared([read(folder, ("layers",)) for folder in surveys], measure or (), choice)
    for file in save_comparison(plate, out):
        result(f"compare: {file}")
