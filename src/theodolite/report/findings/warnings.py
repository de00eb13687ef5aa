"""What a reader should know before trusting a number: counts of what is out of the ordinary."""

from __future__ import annotations

import math

from theodolite.report.findings.finding import at, highest
from theodolite.report.numbers import count, several
from theodolite.report.rows import Row, layer_rows, number, populations, reasons
from theodolite.report.tables import Tables


def warnings(tables: Tables) -> list[str]:
    """Return a sentence for each kind of trouble found, none where there is none."""
    rows = next((rows for name in populations(tables) if (rows := layer_rows(tables, name))), [])
    made = [
        _counted(rows, "nonfinite", "not finite", "What is not finite is left out of every number."),
        _counted(rows, "zero", "exactly zero", "A zero vector has no direction and no part in the mean cosine."),
        _counted(rows, "massive", "massive", "Compare the populations before reading all positions."),
        _duplicates(rows),
        _undefined(rows),
    ]
    return [text for text in made if text]


def _counted(rows: list[Row], column: str, what: str, advice: str) -> str:
    top = highest(rows, column)
    if top is None or number(top, column) <= 0:
        return ""
    layers = sum(number(row, column) > 0 for row in rows)
    most, seen = number(top, column), number(top, "n")
    of = f" of {count(seen)}" if math.isfinite(seen) else ""
    where = f"{at(top)}, the most of the {several(layers, 'layer')} where this happens" if layers > 1 else at(top)
    return f"{count(most)}{of} positions {'is' if round(most) == 1 else 'are'} {what} {where}. {advice}"


def _duplicates(rows: list[Row]) -> str:
    top = highest(rows, "sample_duplicates")
    if top is None or number(top, "sample_duplicates") <= 0:
        return ""
    most = several(number(top, "sample_duplicates"), "duplicate")
    return f"The sample held {most} {at(top)}, dropped before TwoNN."


def _undefined(rows: list[Row]) -> str:
    said = {column: why for row in rows for column, why in reasons(row).items()}
    if not said:
        return ""
    told = "; ".join(f"{column} ({why})" for column, why in sorted(said.items())[:4])
    more = f"; and {len(said) - 4} more" if len(said) > 4 else ""
    return f"Undefined at one layer or more: {told}{more}. The table below gives each reason where it applies."
