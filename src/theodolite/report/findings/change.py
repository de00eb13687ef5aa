"""Of two surveys with the same layers, such as one model before and after: where they differ most."""

from __future__ import annotations

import math

from theodolite.report.findings.finding import Finding, apart, at
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.findings.labels import labels
from theodolite.report.numbers import show
from theodolite.report.rows import Row, layer_name, layer_rows, number
from theodolite.report.tables import Tables

MEASURES = {
    "mean_cosine": "mean cosine",
    "effective_rank": "effective rank",
    "twonn": "TwoNN",
    "tradeoff_r2": "R² of V on M",
}
# The widest of many differences is beyond two standard errors by chance alone; this many count.
WIDEST = 3.0
Pair = tuple[Row, Row]


def change(before: Tables, after: Tables, population: str) -> Finding | None:
    """Say where each measure differs most from the first survey to the second, if by more than the errors."""
    first, second = (layer_rows(tables, population) for tables in (before, after))
    if not first or [layer_name(row) for row in first] != [layer_name(row) for row in second]:
        return None
    widest = {column: pair for column in MEASURES if (pair := _widest(first, second, column)) is not None}
    if not widest:
        return None
    moved = {column: pair for column, pair in widest.items() if _apart(column, pair)}
    a, b = labels([before, after])
    if not moved:
        listed = ", ".join(MEASURES[column] for column in widest)
        where = "Layer by layer, " if len(first) > 1 else ""
        text = f"{where}{b} nowhere differs from {a} beyond the errors, or by 5% without them: {listed}."
        return _made(before, "none", "change beyond the errors", text, "mean_cosine", "")
    told = "; ".join(_told(column, pair) for column, pair in moved.items())
    column, pair = next(iter(moved.items()))
    still = [label for name, label in MEASURES.items() if name in widest and name not in moved]
    rest = f" Nowhere beyond the errors: {', '.join(still)}." if still else ""
    place = _place(pair[0])
    head = f"{'largest ' if place else ''}change of the {MEASURES[column]}{f', {place}' if place else ''}"
    text = f"{'Layer by layer, from' if len(first) > 1 else 'From'} {a} to {b}: {told}.{rest}"
    return _made(before, f"{_signed(_step(column, pair), 3)}", head, text, column, place)


def _widest(first: list[Row], second: list[Row], column: str) -> Pair | None:
    pairs = [pair for pair in zip(first, second, strict=True) if math.isfinite(_step(column, pair))]
    return max(pairs, key=lambda pair: abs(_step(column, pair)), default=None)


def _step(column: str, pair: Pair) -> float:
    return number(pair[1], column) - number(pair[0], column)


def _apart(column: str, pair: Pair) -> bool:
    (a, b), (a_error, b_error) = ([number(row, name) for row in pair] for name in (column, f"{column}_se"))
    return apart(a, b, a_error, b_error, times=WIDEST)


def _told(column: str, pair: Pair) -> str:
    error = math.hypot(*(number(row, f"{column}_se") for row in pair))
    give = f" ± {show(error, 2)}" if error > 0 else ""
    values = " to ".join(show(number(row, column)) for row in pair)
    where = f" {place}" if (place := _place(pair[0])) else ""
    return f"{MEASURES[column]} {values}{where} ({_signed(_step(column, pair), 3)}{give})"


def _place(row: Row) -> str:
    return "" if layer_name(row) == "vectors" else at(row)  # these have one layer, which is all there is


def _signed(value: float, digits: int) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{show(abs(value), digits)}"


def _made(tables: Tables, figure: str, headline: str, text: str, column: str, place: str) -> Finding:
    formula = formula_id(tables, column)
    return Finding(
        "together-change",
        figure,
        headline,
        text,
        column=column,
        chart="side-by-side",
        formula=formula,
        place=place,
    )
