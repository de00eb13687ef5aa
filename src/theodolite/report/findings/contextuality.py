"""The finding on contextuality: self-similarity, intra-sentence similarity, and maximum explainable variance."""

from __future__ import annotations

import math

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import Finding, first_population, highest, locate, lowest, with_error
from theodolite.report.tables import Row, Tables, layer_rows, number
from theodolite.text import format_number, pluralize


def find_contextuality(tables: Tables) -> Finding | None:
    """Describe where occurrences of a unit are least and most similar, minus that of any two positions."""
    column = next(
        (name for name in ("self_similarity_adjusted", "self_similarity") if first_population(tables, name)), ""
    )
    rows = layer_rows(tables, first_population(tables, column))
    low, high = lowest(rows, column), highest(rows, column)
    if low is None or high is None:
        return None
    label = "minus the mean cosine" if column.endswith("adjusted") else ""
    parts = (_describe_self_similarity(low, high, column), _describe_intra_similarity(rows), _describe_mev(rows))
    return Finding(
        "contextuality",
        format_number(number(low, column), 3),
        f"lowest self-similarity{f' {label}' if label else ''}, {locate(low)}",
        " ".join(part for part in parts if part),
        column="self_similarity",
        chart="profiles",
        formula=find_formula_id(tables, "self_similarity"),
        place=locate(low),
    )


def _describe_self_similarity(low: Row, high: Row, column: str) -> str:
    units = number(low, "self_similarity_units")
    over = f" over {pluralize(units, 'unit')}" if math.isfinite(units) else ""
    if low is high:
        value = _with_adjusted(low, column)
        return f"Occurrences of the same unit have an average cosine of {value} {locate(low)}{over}."
    return (
        f"Occurrences of the same unit are least similar {locate(low)}, with an average cosine of "
        f"{_with_adjusted(low, column)}, and most similar {locate(high)}, with "
        f"{_with_adjusted(high, column)}{over}."
    )


def _with_adjusted(row: Row, column: str) -> str:
    value = with_error(row, "self_similarity")
    above = (
        f" ({_above_or_below(number(row, column))} that of any two positions)"
        if column.endswith("adjusted")
        else ""
    )
    return value + above


def _above_or_below(value: float) -> str:
    return f"{format_number(abs(value), 3)} {'above' if value >= 0 else 'below'}"


def _describe_intra_similarity(rows: list[Row]) -> str:
    column = "intra_similarity"
    top = highest(rows, f"{column}_adjusted") or highest(rows, column)
    if top is None:
        return ""
    adjusted = number(top, f"{column}_adjusted")
    above = f", {_above_or_below(adjusted)} that of any two positions" if math.isfinite(adjusted) else ""
    value = with_error(top, column)
    return (
        f"Positions of the same window are most similar {locate(top)}: intra-sentence similarity {value}{above}."
    )


def _describe_mev(rows: list[Row]) -> str:
    """Describe the maximum explainable variance, and that of the same number of vectors of any units."""
    low, high = lowest(rows, "mev"), highest(rows, "mev")
    if low is None or high is None:
        return ""
    ends = (
        [_mev_with_chance(low)] if low is high else ["from", _mev_with_chance(low), "to", _mev_with_chance(high)]
    )
    return f"One direction explains {' '.join(ends)} of a unit's variance on average (MEV)."


def _mev_with_chance(row: Row) -> str:
    chance = number(row, "mev_chance")
    reference = f"; {format_number(chance, 3)} for vectors of any units" if math.isfinite(chance) else ""
    return f"{format_number(number(row, 'mev'), 3)} ({locate(row)}{reference})"
