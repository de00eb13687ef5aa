"""theodolite view: the report, made and opened in the browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk

NAME = "report.html"


def view(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of surveys, series or laboratories, or folders that hold several of them."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page to write. Default: report.html in a new folder among temporary ones.", callback=on_disk
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Make the page about surveys, series or laboratories and open it in the browser."""
    from theodolite.cli.console import Printer, result
    from theodolite.cli.report import chosen, write_page
    from theodolite.cli.reported import read_all

    if out is not None:
        chosen(out, "html")  # refused before anything is read
    found = read_all(folders, Printer().warn)
    page = _fresh() if out is None else out
    write_page(found, page)
    result(f"report: {page}")
    if open_ and not opened(page):
        Printer().warn("no browser opened; open this address in one, or copy the file to where there is one:")
        result(page.resolve().as_uri())


def opened(page: Path) -> bool:
    """Open a page in the user's browser; say whether one was found and started."""
    import webbrowser

    if not _has_screen():
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False


def _has_screen() -> bool:
    """Say whether a browser has somewhere to show itself: without, a text browser would take the terminal."""
    import sys

    told = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    return told or not sys.platform.startswith("linux")


def _fresh() -> Path:
    """Return a place for a page that stays: a browser reads it after this command has ended."""
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="theodolite-")) / NAME
