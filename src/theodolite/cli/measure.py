"""theodolite measure: measure vectors from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import HELP, Memory, Overwrite, Quiet, Resume


def measure(
    file: Annotated[
        Path, typer.Argument(help="Vectors: .npy, .npz, .safetensors, or .parquet with a list column.")
    ],
    groups: Annotated[
        str | None,
        typer.Option(
            help="Labels that group the vectors into units (for V_W and V_B): a column or array; for an .npy "
            "file, a second .npy or a .txt file."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Column or array whose values group the vectors, each with its own rows in groups.parquet; for "
            "an .npy file, a second .npy or a .txt file."
        ),
    ] = None,
    by_top: Annotated[int, typer.Option(help=HELP["by_top"])] = 32,
    column: Annotated[
        str | None, typer.Option(help="Column or array of the vectors, if the file has several.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the survey. Default: the numbers are only printed.")
    ] = None,
    sample_size: Annotated[
        int, typer.Option(help="Number of vectors sampled for TwoNN and other measures that need vectors.")
    ] = 4096,
    memory: Memory = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    label: Annotated[
        str | None, typer.Option(help="Name of the survey in legends and reports. Default: the file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Measure vectors from a file: the same numbers as a survey, without a model."""
    from theodolite.cli.console import Printer
    from theodolite.cli.output import finish_survey
    from theodolite.surveys.vectors import measure as run

    with Printer(quiet=quiet).listening() as printer:
        made = run(
            file,
            groups=groups,
            by=by,
            by_top=by_top,
            column=column,
            out=out,
            sample_size=sample_size,
            memory=memory,
            resume=resume,
            overwrite=overwrite,
            label=label,
            listener=printer,
        )
    finish_survey(made, as_json=json, quiet=quiet)
