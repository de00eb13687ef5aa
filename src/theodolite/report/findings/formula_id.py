"""Which definition stands behind a column."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from theodolite.measures.formula import formula_of_column
from theodolite.report.tables import Tables


def formula_id(tables: Tables, column: str) -> str:
    """Return the formula behind a column: as the survey says, else as this version has it; empty for none."""
    said = _told(tables.facts).get(column)
    return said if isinstance(said, str) and said else _known().get(column, "")


def _told(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    listed = facts.get("formulas")
    layers = listed.get("layers") if isinstance(listed, Mapping) else None
    return layers if isinstance(layers, Mapping) else {}


@cache
def _known() -> dict[str, str]:
    return formula_of_column()
