"""theodolite survey: run a corpus through a model and measure every layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theodolite.cli.options import CORPUS, Quiet, add_flags
from theodolite.surveys.options import RunOptions, SurveyOptions


@add_flags(SurveyOptions, RunOptions)
def survey(
    model: Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")],
    corpus: Annotated[
        list[str], typer.Option(help=f"What to read: {CORPUS}. For speech and vision: a folder of files.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the survey, also in a bucket: s3://BUCKET/FOLDER.")],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the layers as JSON to stdout.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Run a corpus through a model once, measure every layer, and write a folder with tables and a report."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import finish_survey
    from theodolite.errors import InputError
    from theodolite.surveys.api import survey as run

    if len(corpus) > 1:
        raise InputError(
            f"--corpus was given {len(corpus)} times. For several files give one quoted glob, such as "
            f"'texts/*.txt'."
        )
    silence_transformers()
    with Printer(quiet=quiet).listening() as printer:
        made = run(model, corpus[0], out=out, listener=printer, **options)
    finish_survey(made, as_json=json, quiet=quiet)
