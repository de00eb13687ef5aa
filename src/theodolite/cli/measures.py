"""theodolite measures: every formula, by id."""

from __future__ import annotations

import json as encoder
from dataclasses import asdict
from typing import Annotated

import typer


def measures(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List every measure: formula id, columns, definition, cost, citation, error bar."""
    from theodolite.cli.console import result
    from theodolite.measures.formula import formulas

    found = formulas().values()
    if json:
        result(encoder.dumps([asdict(formula) for formula in found]))
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
