"""Which pages of docs/ are generated, and by what. `make docs-renew` writes them; the tests hold them current."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from manual import command_line, exhibit_list, python_names

DOCS = Path(__file__).parents[1] / "docs"


def _measures() -> str:
    from theodolite.cli.measures_page import page
    from theodolite.measures.formula import formulas

    return page(formulas().values()) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "measures.md": _measures,
    "reference/cli.md": command_line.page,
    "reference/exhibits.md": lambda: exhibit_list.page(DOCS),
    "reference/python.md": python_names.page,
}
