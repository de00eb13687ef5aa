"""theodolite report: one page for one survey or several, or Markdown for a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk

FORMATS = ("html", "md")
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
PRINT = Path("-")


def report(
    surveys: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of surveys, of series (from `theodolite dynamics`) or of laboratories (weights, probe, "
            "...), or folders that contain several of them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write, or - to print Markdown. Default: report.html, or report.md with --format md.",
            callback=on_disk,
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="html (a self-contained page) or md (Markdown for a pull request). Default: from the ending of "
            "--out.",
        ),
    ] = None,
    projections: Annotated[
        str,
        typer.Option(
            help="How the sample is projected: pca, or pca,umap to also use UMAP at a few layers, which takes "
            "about half a minute and requires umap-learn."
        ),
    ] = "pca",
) -> None:
    """Write a self-contained HTML page, or Markdown, about one survey or several side by side."""
    from theodolite.api.report import read_inputs, render_text, write_page, write_text
    from theodolite.cli.console import Printer, print_result

    kind, file = choose_output(out, format_)
    printer = Printer()
    inputs = read_inputs(surveys, printer.warn, projections)
    if kind == "html":
        write_page(inputs, file, printer)
    elif file == PRINT:
        print_result(render_text(inputs, printer.warn).rstrip("\n"))
        return
    else:
        write_text(file, render_text(inputs, printer.warn))
    print_result(f"report: {file}")


def choose_output(out: Path | None, form: str | None) -> tuple[str, Path]:
    """Return the format and the file. If one is not given, it follows from the other; they must agree."""
    from theodolite.errors import InputError, nearest

    if form is not None and form not in FORMATS:
        raise InputError(f"--format {form!r} is not one of {', '.join(FORMATS)}.{nearest(form, list(FORMATS))}")
    if out is None:
        kind = form or "html"
        return kind, Path(f"report.{kind}")
    if out == PRINT:
        if form == "html":
            raise InputError("--out - prints Markdown only; for HTML give a file, such as --out report.html.")
        return "md", out
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; give a file, such as {out / ('report.' + (form or 'html'))}.")
    ending = SUFFIXES.get(out.suffix.lower())
    if out.suffix and ending is None and form is None:
        raise InputError(f"--out {out} must end in .html or .md (got {out.suffix}).")
    if form is not None and ending is not None and ending != form:
        raise InputError(
            f"--out {out} ends in {out.suffix}, but --format is {form}; give only one of them, or let --out end "
            f"in .{form}."
        )
    return form or ending or "html", out
