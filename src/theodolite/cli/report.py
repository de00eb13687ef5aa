"""theodolite report: one page for one survey or several, or Markdown for a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.options import on_disk

if TYPE_CHECKING:
    from theodolite.cli.reported import Reported

FORMATS = ("html", "md")
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
PRINT = Path("-")
NOTHING = "These folders hold laboratories alone, and no survey or series: --format html shows them."


def report(
    surveys: Annotated[
        list[Path],
        typer.Argument(help="Folders of surveys, series or laboratories, or folders that hold several of them."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; - prints Markdown. Default: report.html, with --format md report.md.",
            callback=on_disk,
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html, a page that holds everything, or md, Markdown for a pull request. Default: as --out ends.",
        ),
    ] = None,
) -> None:
    """Write a self-contained page about surveys, several of them side by side; or Markdown."""
    from theodolite.cli.console import Printer, result
    from theodolite.cli.reported import read_all

    kind, file = chosen(out, format_)
    found = read_all(surveys, Printer().warn)
    if kind == "html":
        write_page(found, file)
    elif file == PRINT:
        result(_markdown(found).rstrip("\n"))
        return
    else:
        _write_markdown(found, file)
    result(f"report: {file}")


def write_page(found: Reported, file: Path) -> None:
    """Write the page on everything that was read; studies are drawn for it."""
    from theodolite.cli.console import Printer
    from theodolite.cli.drawn import drawn
    from theodolite.report import write

    printer = Printer()
    pictures = drawn([*found.laboratories, *found.beside], printer.say, printer.warn)
    file.parent.mkdir(parents=True, exist_ok=True)
    write(found.surveys, file, found.series, pictures)


def _markdown(found: Reported) -> str:
    from theodolite.cli.console import Printer
    from theodolite.errors import InputError
    from theodolite.naming import several
    from theodolite.report.markdown import render_markdown

    told = [*found.surveys, *(one.tables for one in found.series)]
    if not told:
        raise InputError(NOTHING)
    if found.laboratories:
        left = several(len(found.laboratories), "laboratory", "laboratories")
        Printer().warn(f"{left} left out: --format html shows such.")
    return render_markdown(told)


def _write_markdown(found: Reported, file: Path) -> None:
    from theodolite.surveys.files import write_beside

    text = _markdown(found)
    write_beside(file, lambda beside: _written(beside, text))


def chosen(out: Path | None, form: str | None) -> tuple[str, Path]:
    """Return the format and the file, each told by the other where it is not given; refuse two that differ."""
    from theodolite.errors import InputError, nearest

    if form is not None and form not in FORMATS:
        raise InputError(f"--format {form!r} is not one of {', '.join(FORMATS)}.{nearest(form, list(FORMATS))}")
    if out is None:
        kind = form or "html"
        return kind, Path(f"report.{kind}")
    if out == PRINT:
        if form == "html":
            raise InputError("--out - prints Markdown only; give a page the name of a file, such as report.html.")
        return "md", out
    if out.is_dir():
        raise InputError(
            f"--out {out} is a folder; give the name of a file, such as {out / ('report.' + (form or 'html'))}."
        )
    ending = SUFFIXES.get(out.suffix.lower())
    if out.suffix and ending is None and form is None:
        raise InputError(f"--out {out}: a report is a page or Markdown; end in .html or .md, not in {out.suffix}.")
    if form is not None and ending is not None and ending != form:
        raise InputError(
            f"--out {out} ends in {out.suffix}, but --format is {form}: give one of the two, or end in .{form}."
        )
    return form or ending or "html", out


def _written(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
