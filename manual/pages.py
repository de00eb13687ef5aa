"""The generated pages of docs/. `make docs-renew` writes them; the tests check that they are current."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from manual import array_measures, command_line, exhibit_list, mathml, python_names, reference_models
from manual.claims import page as claims
from manual.sinks import page as sinks

DOCS = Path(__file__).parents[1] / "docs"


def _measures() -> str:
    from theodolite.cli.measures import measures_page
    from theodolite.measures.formula import formulas

    return measures_page(formulas().values()) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "claims.md": claims.page,
    "measures.md": _measures,
    "reference/arrays.md": array_measures.page,
    "reference/cli.md": command_line.page,
    "reference/exhibits.md": lambda: exhibit_list.page(DOCS),
    "reference/python.md": python_names.page,
    "reference-models.md": reference_models.page,
    "sinks.md": sinks.page,
    "../src/theodolite/report/assets/formulas.json": mathml.formulas_file,
}
