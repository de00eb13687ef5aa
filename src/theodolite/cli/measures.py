"""theodolite measures: every formula, by id."""

from __future__ import annotations

import json as encoder
from collections.abc import Iterable
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
    from theodolite.measures.formula import formulas

    found = formulas().values()
    if json:
        result(encoder.dumps([asdict(formula) for formula in found]))
        return
    if markdown:
        result(page(found))
        return
    for formula in found:
        result(formula.id)
        lines = {
            "columns": ", ".join(formula.columns),
            "": formula.definition,
            "cost": formula.cost,
            "cited": formula.citation,
            "error": formula.error,
        }
        for name, text in lines.items():
            if text:
                result(f"  {name + ': ' if name else ''}{text}")
        result("")


def page(found: Iterable[Formula]) -> str:
    """Return the formulas as a page of Markdown."""
    lines = [
        "# Measures",
        "",
        "Every number names its formula, since one word means different formulas in different tools. This page is",
        "what `theodolite measures --markdown` prints.",
    ]
    for formula in found:
        columns = ", ".join(f"`{column}`" for column in formula.columns)
        lines += ["", f"## `{formula.id}`", "", formula.definition, ""]
        lines += [f"- columns: {columns}", f"- cost: {formula.cost}", f"- citation: {formula.citation}"]
        lines += [f"- error bar: {formula.error}"] if formula.error else []
    return "\n".join(lines)
