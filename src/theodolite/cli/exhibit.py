"""theodolite exhibit: one figure or table of a paper, from surveys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk


def exhibit(
    name: Annotated[
        str, typer.Argument(help="PAPER/ID, such as norm-variance/fig2; `theodolite exhibits` lists.")
    ],
    surveys: Annotated[list[Path], typer.Argument(help="Folders of surveys, one a model.")],
    out: Annotated[
        Path,
        typer.Option(help="File to write: .png, .svg or .pdf; a table also .csv, .md or .json.", callback=on_disk),
    ],
    layer: Annotated[
        list[int] | None, typer.Option(help="Layer to draw; several times for a grid of layers.")
    ] = None,
    population: Annotated[str, typer.Option(help="all, without-first or without-massive.")] = "all",
    variant: Annotated[str, typer.Option(help="M and V biased, as in the paper, or unbiased.")] = "biased",
    filter: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Units: frequent (1 <= log10 n <= 5) or all. Default: as the paper did there."),
    ] = None,
    specials: Annotated[
        str,
        typer.Option(
            help="Special units: kept, left-out, or auto, left out of fits and sums below 100,000 documents."
        ),
    ] = "auto",
    depth: Annotated[
        str | None,
        typer.Option(
            help="Axis of layers: layer, or normalised, 1 at the last block. Default: as the paper did there."
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(help="Axis of training steps: linear or log. Default: log where they span that much."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Also write the numbers drawn to this .csv.", callback=on_disk)
    ] = None,
) -> None:
    """Draw one figure or table of a paper from finished surveys."""
    from theodolite.cli.console import result
    from theodolite.exhibits.registry import find, make
    from theodolite.exhibits.saving import check_data, check_ending, save, save_data
    from theodolite.studies.choice import Choice
    from theodolite.studies.reading import read

    found = find(name)
    check_ending(found, out)
    if data is not None:
        check_data(data)
    choice = Choice(population, variant, filter, specials, tuple(layer or ()), depth, steps)
    plate = make(found, [read(folder, found.reads) for folder in surveys], choice)
    save(found, plate, out)
    result(f"{found.name}: {out}")
    if data is not None:
        save_data(plate.data, data)
        result(f"data: {data}")
