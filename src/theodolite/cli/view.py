"""theodolite view: write the report page and open it in the browser."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import on_disk
from theodolite.errors import InputError

NAME = "report.html"


def view(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of surveys, of series (from `theodolite dynamics`) or of laboratories (weights, probe, "
            "...), or folders that contain several of them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file to write. Default: report.html in a new temporary folder.", callback=on_disk),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep the page current while a training run adds steps to its series, until Ctrl-C. The page is "
            "served to this machine only.",
        ),
    ] = False,
    port: Annotated[int | None, typer.Option(help="Port of --follow. Default: any free one.")] = None,
) -> None:
    """Write the report page about surveys, series or laboratories and open it in the browser."""
    if follow:
        _follow(folders, out, port or 0, open_=open_)
        return
    if port is not None:
        raise InputError("--port is the port of --follow; add --follow, or omit it.")
    from theodolite.api.report import read_inputs, write_page
    from theodolite.cli.console import Printer, print_result
    from theodolite.cli.report import choose_output

    if out is not None:
        choose_output(out, "html")  # reject a wrong name before anything is read
    inputs = read_inputs(folders, Printer().warn)
    page = _temporary_page() if out is None else out
    write_page(inputs, page, Printer())
    print_result(f"report: {page}")
    if open_ and not open_in_browser(page):
        Printer().warn("No browser could be opened. Open this address, or copy the file to another machine:")
        print_result(page.resolve().as_uri())


def _follow(folders: list[Path], out: Path | None, port: int, *, open_: bool) -> None:
    """Serve a page that is made again whenever a folder changes."""
    from theodolite.api.live_page import make_server
    from theodolite.cli.console import Printer, print_result

    if out is not None:
        raise InputError("--out writes one page, and --follow serves a page that changes; give one of them.")
    with make_server(folders, port) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        print_result(f"report: {address}")
        if open_ and not open_in_browser(address):
            Printer().warn("No browser could be opened. Open this address.")
        with suppress(KeyboardInterrupt):  # the way to end it
            server.serve_forever()


def open_in_browser(page: Path | str) -> bool:
    """Open a page or an address in the user's browser; return whether one was found and started."""
    import webbrowser

    if not _has_display():
        return False
    try:
        return webbrowser.open(page if isinstance(page, str) else page.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False


def _has_display() -> bool:
    """Return whether a browser can open a window. Otherwise a text browser would take over the terminal."""
    import sys

    configured = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    return configured or not sys.platform.startswith("linux")


def _temporary_page() -> Path:
    """Return a new path for a page that is kept: the browser reads it after this command has ended."""
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="theodolite-")) / NAME
