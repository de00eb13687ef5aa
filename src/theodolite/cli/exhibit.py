"""theodolite exhibit: one figure or table of a paper, or all of it, from surveys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.exhibit_name import known_name
from theodolite.cli.options import on_disk


def exhibit(
    name: Annotated[
        str,
        typer.Argument(
            help="PAPER/ID, such as norm-variance/fig2, which `theodolite exhibits` lists; or PAPER, for all that "
            "the surveys allow.",
            callback=known_name,
        ),
    ],
    surveys: Annotated[list[Path], typer.Argument(help="Folders of surveys, one a model.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .png, .svg or .pdf; a table also .csv, .md or .json. For a paper a folder. "
            "Default: none, it must be given.",
            callback=on_disk,
        ),
    ] = None,
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
        Path | None,
        typer.Option(
            help="Also write the numbers drawn to this .csv; for a paper they always are, beside each picture.",
            callback=on_disk,
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(help="For a paper: png, svg or pdf; several times. Default: png and svg."),
    ] = None,
    no_caption: Annotated[
        bool,
        typer.Option(
            "--no-caption",
            help="Put no text under the picture; it is printed instead, for a paper it is in index.html.",
        ),
    ] = False,
) -> None:
    """Draw a figure or table of a paper, or all of the paper, from finished surveys.

    PAPER alone draws all of it: --out is a folder for the pictures, their numbers and an index.html. A survey that
    lacks what a figure needs is left out of it, a figure that none allows is not drawn, and both are told with the
    reason. An exhibit that does not heed an option is drawn without it, and that is told too; the others have the
    choice in their file's name (fig4-without-first.png). Exit code 2 if nothing could be drawn.
    """
    from theodolite.cli.exhibit_one import draw_one
    from theodolite.cli.exhibit_paper import draw_paper
    from theodolite.errors import InputError
    from theodolite.exhibits.registry import is_paper
    from theodolite.studies.choice import Choice

    choice = Choice(population, variant, filter, specials, tuple(layer or ()), depth, steps)
    if is_paper(name):
        if out is None:
            raise InputError(f"--out is missing: name a folder for the figures, such as --out {name}-figures.")
        if data is not None:
            raise InputError("--data is for one exhibit; of a paper the numbers are written beside each picture.")
        draw_paper(name, surveys, out, choice, format or (), captioned=not no_caption)
        return
    if out is None:
        raise InputError(f"--out is missing: name the file to write, such as --out {name.partition('/')[2]}.png.")
    if format:
        raise InputError(f"--format is for a whole paper; the ending of --out {out} says the format.")
    draw_one(name, surveys, out, choice, data, captioned=not no_caption)
