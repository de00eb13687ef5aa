"""theodolite merge: surveys made apart become one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import Quiet


def merge(
    surveys: Annotated[
        list[Path], typer.Argument(help="Folders of surveys of one model with one set of settings.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the merged survey.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the survey in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the layers as JSON to stdout.")] = False,
    quiet: Quiet = False,
) -> None:
    """Merge surveys over different documents into one, as if they had been read together.

    Of parts of one corpus (--part) the sample is that of the whole; of different files it is another one, and with
    it TwoNN and its kin.
    """
    from theodolite.cli.console import Printer
    from theodolite.cli.finish import finish
    from theodolite.surveys.merge import merge as run

    with Printer(quiet=quiet).listening() as printer:
        made = run(list(surveys), out=out, overwrite=overwrite, listener=printer)
    finish(made, as_json=json, quiet=quiet)
