"""theodolite measures: every formula, by theme and id."""

from __future__ import annotations

import json as encoder
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from theodolite.measures.formula import Formula


def measures(
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print as the page docs/measures.md.")] = False,
) -> None:
    """List every measure: formula id, columns, definition, cost, citation, error bar."""
    from theodolite.cli.console import result
    from theodolite.cli.measures_page import page
    from theodolite.measures.formula import formulas
    from theodolite.measures.themes import by_theme, theme_of

    found = formulas().values()
    if json:
        rows = [{**asdict(each), "theme": theme_of(each.id).title, "anchor": each.anchor} for each in found]
        result(encoder.dumps(rows))
        return
    if markdown:
        result(page(found))
        return
    for theme, held in by_theme(found).items():
        result(f"{theme.title.upper()}\n")
        for formula in held:
            result("\n".join(_lines(formula)) + "\n")


def _lines(formula: Formula) -> list[str]:
    facts = {
        "columns": ", ".join(formula.columns),
        "": formula.definition,
        "cost": formula.cost,
        "cited": formula.citation,
        "error": formula.error,
    }
    return [formula.id, *(f"  {name + ': ' if name else ''}{text}" for name, text in facts.items() if text)]
