"""In how many dimensions the vectors live, from the fewest to the most."""

from __future__ import annotations

import math

from theodolite.naming import several
from theodolite.report.findings.finding import Finding, at, highest, lowest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import Row, defined, layer_rows, number
from theodolite.report.tables import Tables

MEASURES = (
    ("effective_rank", "effective rank"),
    ("participation_ratio", "participation ratio"),
    ("twonn", "TwoNN"),
)
# A second population is worth a sentence when an end of its range differs by this factor.
APART = 1.25


def dimension(tables: Tables) -> Finding | None:
    """Say over what range the effective dimensions run, and how it changes without massive activations."""
    base = next((name for column, _ in MEASURES if (name := reference(tables, column))), "")
    rows = layer_rows(tables, base)
    spans = [text for column, label in MEASURES if (text := _span(rows, column, label))]
    if not spans:
        return None
    column, label = next((column, label) for column, label in MEASURES if lowest(rows, column) is not None)
    low, high = number(lowest(rows, column) or {}, column), number(highest(rows, column) or {}, column)
    dims = max((number(row, "dim") for row in rows if math.isfinite(number(row, "dim"))), default=math.nan)
    of = f", in {several(dims, 'coordinate')}" if math.isfinite(dims) else ""
    text = f"{'; '.join(spans)}{of}.{_beside(rows)}{_other(tables, base, rows, column, label)}"
    return Finding(
        "dimension",
        show(low, 3) if low == high else f"{show(low, 3)} – {show(high, 3)}",
        f"{label}, fewest to most",
        text[0].upper() + text[1:],
        column=column,
        chart="spectra",
        formula=formula_id(tables, column),
    )


def _beside(rows: list[Row]) -> str:
    """Set the two kinds of dimension side by side at the last layer that tells both."""
    both = [row for row in defined(rows, "effective_rank") if math.isfinite(number(row, "twonn"))]
    if not both:
        return ""
    rank, near = show(number(both[-1], "effective_rank")), with_error(both[-1], "twonn")
    wide = "direction" if rank == "1" else "directions"
    place = at(both[-1])
    return (
        f" {place[0].upper()}{place[1:]} the variance spreads over {rank} {wide}, while nearest neighbours "
        f"tell {near} dimensions."
    )


def _span(rows: list[Row], column: str, label: str) -> str:
    low, high = lowest(rows, column), highest(rows, column)
    if low is None or high is None:
        return ""
    if number(low, column) == number(high, column):
        return f"{label} {show(number(low, column))} {at(low)}"
    return f"{label} from {show(number(low, column))} {at(low)} to {show(number(high, column))} {at(high)}"


def _other(tables: Tables, base: str, rows: list[Row], column: str, label: str) -> str:
    others = layer_rows(tables, "without-massive") if base == "all" else []
    pairs = [(pick(rows, column), pick(others, column)) for pick in (lowest, highest)]
    apart = [_ratio(number(a, column), number(b, column)) > APART for a, b in pairs if a and b]
    if not any(apart):
        return ""
    return f" Without massive activations: {_span(others, column, label)} (the population without-massive)."


def _ratio(a: float, b: float) -> float:
    return max(a / b, b / a) if a > 0 and b > 0 else 1.0
