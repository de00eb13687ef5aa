"""The finding on the trade-off: where the variance V of a unit depends most on the squared norm M of its mean."""

from __future__ import annotations

import math

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.anisotropy import EXCLUDED
from theodolite.report.findings.finding import Finding, first_population, highest, locate, with_error
from theodolite.report.tables import Row, Tables, layer_rows, number
from theodolite.text import format_number, pluralize

# A second population is reported if its R2 differs by this much.
LEAST_DIFFERENCE = 0.05


def find_tradeoff(tables: Tables) -> Finding | None:
    """Describe where R2 of V on M is highest, and the slope at that layer."""
    base = first_population(tables, "tradeoff_r2")
    top = highest(layer_rows(tables, base), "tradeoff_r2")
    if top is None:
        return None
    used = number(top, "units_used")
    over = f" over {pluralize(used, 'unit')}" if math.isfinite(used) else ""
    tail = (
        _explain_slope(top)
        + _without_noise(top)
        + _tightest_negative(layer_rows(tables, base), top)
        + _without_positions(tables, base, top)
    )
    text = f"{_describe_direction(top)}. The fit is tightest {locate(top)}: R² {_describe_fit(top)}{over}.{tail}"
    falls = number(top, "tradeoff_slope") < 0
    head = (
        f"highest R² of V on M, {locate(top)}" if falls else f"highest R² of V on M, {locate(top)}; no trade-off"
    )
    return Finding(
        "tradeoff",
        format_number(number(top, "tradeoff_r2")),
        head,
        text,
        column="tradeoff_r2",
        chart="token-map",
        formula=find_formula_id(tables, "tradeoff_r2"),
        place=locate(top),
    )


def _describe_direction(row: Row) -> str:
    slope = number(row, "tradeoff_slope")
    if math.isnan(slope):
        return "The variance V of a unit depends on the squared norm M of its mean"
    return f"Units whose mean has a larger norm (M) vary {'less' if slope < 0 else 'more'} (V)"


def _describe_fit(row: Row) -> str:
    return f"{with_error(row, 'tradeoff_r2')} with slope {with_error(row, 'tradeoff_slope')}"


def _explain_slope(row: Row) -> str:
    return " With a slope of −1 all units would have the same Q." if number(row, "tradeoff_slope") < 0 else ""


def _without_noise(row: Row) -> str:
    """State the slope without the effect of the noise of M, and what it assumes."""
    if not math.isfinite(number(row, "tradeoff_slope_corrected")):
        return ""
    slope = with_error(row, "tradeoff_slope_corrected")
    return (
        f" Corrected for the noise of M, which flattens it, the slope is {slope}, as if the occurrences of a unit "
        "were independent."
    )


def _tightest_negative(rows: list[Row], top: Row) -> str:
    """If the tightest fit has a positive slope, describe the tightest fit with a negative one, a trade-off."""
    if not number(top, "tradeoff_slope") >= 0:
        return ""
    best = highest([row for row in rows if number(row, "tradeoff_slope") < 0], "tradeoff_r2")
    if best is None:
        return " No layer has a negative slope."
    return f" Of the layers with a negative slope, the fit is tightest {locate(best)}: R² {_describe_fit(best)}."


def _without_positions(tables: Tables, base: str, top: Row) -> str:
    """Describe the tightest fit without the first position and without massive ones, if it differs."""
    sentences: list[str] = []
    for name, words in EXCLUDED.items() if base == "all" else ():
        rows = layer_rows(tables, name)
        other = highest(rows, "tradeoff_r2")
        if other is None or abs(number(other, "tradeoff_r2") - number(top, "tradeoff_r2")) < LEAST_DIFFERENCE:
            continue
        fit = f"{locate(other)}: R² {_describe_fit(other)}.{_tightest_negative(rows, other)}"
        sentences.append(f" Without {words} it is tightest {fit}")
    return "".join(sentences)
