"""theodolite exhibit: one figure or table of a paper, or all of them, from finished surveys."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.options import on_disk
from theodolite.cli.study_options import DefaultPopulation

if TYPE_CHECKING:
    from theodolite.studies.choice import Choice


def check_name(name: str) -> str:
    """Return the name of an exhibit or a paper; reject an unknown one before anything is read."""
    from theodolite.errors import InputError
    from theodolite.exhibits.registry import all_exhibits, find, is_paper

    if is_paper(name):
        return name
    if name not in all_exhibits() and Path(name).is_dir():
        usage = f"theodolite exhibit NAME {shlex.quote(name)} --out FILE"
        raise InputError(f"{name} is a folder; the name of the exhibit comes first: `{usage}`.")
    return find(name).name


def exhibit(
    name: Annotated[
        str,
        typer.Argument(
            help="PAPER/ID, such as norm-variance/fig2 (`theodolite exhibits` lists them), or PAPER for all "
            "exhibits that the surveys allow.",
            callback=check_name,
        ),
    ],
    surveys: Annotated[list[Path], typer.Argument(help="Folders of surveys, one per model.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .png, .svg or .pdf; for a table also .csv, .md or .json. For a paper, a folder. "
            "Required.",
            callback=on_disk,
        ),
    ] = None,
    layer: Annotated[
        list[int] | None, typer.Option(help="Layer to draw. Repeat the option for a grid of layers.")
    ] = None,
    population: DefaultPopulation = "auto",
    variant: Annotated[
        str, typer.Option(help="Estimator of M and V: biased (as in the paper) or unbiased.")
    ] = "biased",
    filter: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            help="Units: frequent (10 to 100,000 occurrences) or all. Default: as in the paper's figure."
        ),
    ] = None,
    specials: Annotated[
        str,
        typer.Option(
            help="Special tokens: kept, left-out, or auto (excluded from fits and sums if the survey has fewer "
            "than 100,000 documents)."
        ),
    ] = "auto",
    depth: Annotated[
        str | None,
        typer.Option(
            help="Axis of layers: layer (their number) or normalised (1 at the last block). Default: as in the "
            "paper's figure."
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(help="Axis of training steps: linear or log. Default: log if their range is large."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Also write the plotted numbers to this .csv. For a paper they are always written.",
            callback=on_disk,
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(help="For a paper: png, svg or pdf; may be repeated. Default: png and svg."),
    ] = None,
    no_caption: Annotated[
        bool,
        typer.Option(
            "--no-caption",
            help="Draw no caption under the picture. It is printed instead; for a paper it is in index.html.",
        ),
    ] = False,
) -> None:
    """Draw a figure or table of a paper, or all exhibits of the paper, from finished surveys.

    PAPER without an ID draws all exhibits of the paper: --out is then a folder for the pictures, their numbers and
    an index.html. Each exhibit is drawn from the surveys that have the data it needs. The command prints which
    surveys were skipped and which exhibits were not drawn, with the reasons. An exhibit that does not support an
    option is drawn without it, and this is printed too. Options that differ from the paper are added to the file
    name (fig4-without-first.png). The exit code is 2 if nothing could be drawn.
    """
    from theodolite.cli.exhibit_paper import run_paper
    from theodolite.errors import InputError
    from theodolite.exhibits.registry import is_paper
    from theodolite.studies.choice import Choice

    choice = Choice(population, variant, filter, specials, tuple(layer or ()), depth, steps)
    if is_paper(name):
        if out is None:
            raise InputError(f"--out is missing; give a folder for the figures, such as --out {name}-figures.")
        if data is not None:
            raise InputError(
                "--data requires a single exhibit; for a paper the numbers are always written, one .csv each."
            )
        run_paper(name, surveys, out, choice, format or (), captioned=not no_caption)
        return
    if out is None:
        raise InputError(f"--out is missing; give a file, such as --out {name.partition('/')[2]}.png.")
    if format:
        raise InputError(
            f"--format requires a paper (got the exhibit {name}); the ending of --out {out} selects the format."
        )
    draw_one(name, surveys, out, choice, data, captioned=not no_caption)


def draw_one(
    name: str, surveys: Sequence[Path], out: Path, choice: Choice, data: Path | None, *, captioned: bool
) -> None:
    """Draw an exhibit to a file and print its path; without a caption under the picture, print the caption."""
    from theodolite.cli.console import print_result
    from theodolite.exhibits.registry import find, make
    from theodolite.exhibits.saving import check_data_path, check_ending, save, save_data
    from theodolite.studies.reading import read_survey_data

    found = find(name)
    check_ending(found, out)
    if data is not None:
        check_data_path(data)
    plate = make(found, [read_survey_data(folder, found.reads) for folder in surveys], choice)
    save(found, plate if captioned else replace(plate, caption=""), out)
    print_result(f"{found.name}: {out}")
    if not captioned:
        print_result(f"caption: {plate.caption}")
    if data is not None:
        save_data(plate.data, data)
        print_result(f"data: {data}")
