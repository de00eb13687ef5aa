"""How much context moves a unit: self-similarity, similarity within a window, and what one direction explains."""

from __future__ import annotations

import math

from theodolite.naming import several
from theodolite.report.findings.finding import Finding, at, highest, lowest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import Row, layer_rows, number
from theodolite.report.tables import Tables


def contextuality(tables: Tables) -> Finding | None:
    """Say where occurrences of a unit are most and least alike, less what any two positions share."""
    column = next(
        (name for name in ("self_similarity_adjusted", "self_similarity") if reference(tables, name)), ""
    )
    rows = layer_rows(tables, reference(tables, column))
    low, high = lowest(rows, column), highest(rows, column)
    if low is None or high is None:
        return None
    label = "less the mean cosine" if column.endswith("adjusted") else ""
    parts = (_alike(low, high, column), _window(rows), _explained(rows))
    return Finding(
        "contextuality",
        show(number(low, column), 3),
        f"lowest self-similarity{f' {label}' if label else ''}, {at(low)}",
        " ".join(part for part in parts if part),
        column="self_similarity",
        chart="profiles",
        formula=formula_id(tables, "self_similarity"),
        place=at(low),
    )


def _alike(low: Row, high: Row, column: str) -> str:
    units = number(low, "self_similarity_units")
    over = f" over {several(units, 'unit')}" if math.isfinite(units) else ""
    if low is high:
        return f"Occurrences of the same unit have an average cosine of {_similar(low, column)} {at(low)}{over}."
    return (
        f"Occurrences of the same unit are least alike {at(low)}, an average cosine of {_similar(low, column)}, "
        f"and most {at(high)}, {_similar(high, column)}{over}."
    )


def _similar(row: Row, column: str) -> str:
    value = with_error(row, "self_similarity")
    above = f" ({_above(number(row, column))} any two positions)" if column.endswith("adjusted") else ""
    return value + above


def _above(value: float) -> str:
    return f"{show(abs(value), 3)} {'above' if value >= 0 else 'below'}"


def _window(rows: list[Row]) -> str:
    column = "intra_similarity"
    top = highest(rows, f"{column}_adjusted") or highest(rows, column)
    if top is None:
        return ""
    adjusted = number(top, f"{column}_adjusted")
    above = f", {_above(adjusted)} any two" if math.isfinite(adjusted) else ""
    value = with_error(top, column)
    return f"Positions of one window are most alike {at(top)}: intra-sentence similarity {value}{above}."


def _explained(rows: list[Row]) -> str:
    """Tell the maximum explainable variance beside what as many vectors of any units give."""
    low, high = lowest(rows, "mev"), highest(rows, "mev")
    if low is None or high is None:
        return ""
    if low is high:
        return f"One direction explains {_mev(low)} of a unit's variance on average (MEV)."
    return f"One direction explains from {_mev(low)} to {_mev(high)} of a unit's variance on average (MEV)."


def _mev(row: Row) -> str:
    chance = number(row, "mev_chance")
    beside = f"; of any units, {show(chance, 3)}" if math.isfinite(chance) else ""
    return f"{show(number(row, 'mev'), 3)} ({at(row)}{beside})"
