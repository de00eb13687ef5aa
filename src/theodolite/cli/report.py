"""theodolite report: one page for one survey or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    surveys: Annotated[list[Path], typer.Argument(help="Folders of surveys.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write a self-contained page about surveys, several of them side by side."""
    from theodolite.cli.console import result
    from theodolite.errors import InputError
    from theodolite.report import Tables, write
    from theodolite.surveys.folder import open_tables
    from theodolite.surveys.survey import survey_name

    if out.is_dir():
        raise InputError(f"--out {out} is a folder; give the name of a file, such as {out / 'report.html'}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    pages = []
    for folder in surveys:
        facts, tables = open_tables(folder)
        pages.append(Tables(survey_name(facts), facts, **tables))
    write(pages, out)
    result(f"report: {out}")
