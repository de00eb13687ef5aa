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
    from theodolite.report import Tables, write
    from theodolite.surveys.folder import open_tables
    from theodolite.surveys.survey import survey_name

    pages = []
    for folder in surveys:
        facts, tables = open_tables(folder)
        pages.append(Tables(survey_name(facts), facts, **tables))
    write(pages, out)
    result(f"report: {out}")
