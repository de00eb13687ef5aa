"""One thing worth saying: a figure to see at a glance, what it is, and the sentences behind it."""

from __future__ import annotations

from dataclasses import dataclass

from theodolite.report.rows import Row, defined, layer_name, layer_rows, number, populations
from theodolite.report.tables import Tables


@dataclass(frozen=True)
class Finding:
    """A finding in plain text; the page escapes it."""

    key: str
    figure: str
    headline: str
    text: str


def highest(rows: list[Row], column: str) -> Row | None:
    """Return the row where a column is greatest, the first of equals; None where it is nowhere defined."""
    return max(defined(rows, column), key=lambda row: number(row, column), default=None)


def lowest(rows: list[Row], column: str) -> Row | None:
    """Return the row where a column is least, the first of equals; None where it is nowhere defined."""
    return min(defined(rows, column), key=lambda row: number(row, column), default=None)


def reference(tables: Tables, column: str) -> str:
    """Return the first population in which a column is defined anywhere; empty for none."""
    return next((name for name in populations(tables) if defined(layer_rows(tables, name), column)), "")


def at(row: Row) -> str:
    """Say where a row is.

    >>> at({"layer": 3, "layer_name": "block 3"})
    'at block 3'
    """
    name = layer_name(row)
    return f"at the {name}" if name in ("embeddings", "final norm") else f"at {name}"
