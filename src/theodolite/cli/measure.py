"""theodolite measure: vectors that one already has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import Memory, Quiet


def measure(
    file: Annotated[
        Path, typer.Argument(help="Vectors: .npy, .npz, .safetensors, or .parquet with a list column.")
    ],
    groups: Annotated[
        str | None,
        typer.Option(
            help="Labels, the units of V_W and V_B: a column or array; of an .npy, a second .npy or a .txt."
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column or array of vectors, where there are several.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the survey; without it the numbers are only shown.")
    ] = None,
    sample_size: Annotated[int, typer.Option(help="Vectors kept whole, for TwoNN.")] = 4096,
    memory: Memory = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the survey in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON to stdout.")] = False,
    quiet: Quiet = False,
) -> None:
    """Measure vectors from a file: the same numbers as a survey, no model."""
    from theodolite.cli.console import Printer
    from theodolite.cli.finish import finish
    from theodolite.surveys.memory import parse_size
    from theodolite.surveys.vectors import measure as run

    budget = parse_size(memory) if memory is not None else None
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            file,
            groups=groups,
            column=column,
            out=out,
            sample_size=sample_size,
            memory=budget,
            resume=resume,
            overwrite=overwrite,
            listener=printer,
        )
    finish(made, as_json=json, quiet=quiet)
