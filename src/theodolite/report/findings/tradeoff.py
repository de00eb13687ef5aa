"""Where the norm of a unit's mean tells most about its spread."""

from __future__ import annotations

import math

from theodolite.naming import several
from theodolite.report.findings.anisotropy import NAMES
from theodolite.report.findings.finding import Finding, at, highest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import Row, layer_rows, number
from theodolite.report.tables import Tables

# A second population is worth a sentence when its R2 differs by this much.
APART = 0.05


def tradeoff(tables: Tables) -> Finding | None:
    """Say where R2 of V on M is highest, with the slope there."""
    base = reference(tables, "tradeoff_r2")
    top = highest(layer_rows(tables, base), "tradeoff_r2")
    if top is None:
        return None
    used = number(top, "units_used")
    over = f" over {several(used, 'unit')}" if math.isfinite(used) else ""
    tail = _yardstick(top) + _falling(layer_rows(tables, base), top) + _other(tables, base, top)
    text = f"{_way(top)}, most tightly {at(top)}: R² {_fit(top)}{over}.{tail}"
    falls = number(top, "tradeoff_slope") < 0
    head = (
        f"R² of the tightest trade-off, {at(top)}"
        if falls
        else f"R² of V on M at its tightest, {at(top)}; no trade-off"
    )
    return Finding(
        "tradeoff",
        show(number(top, "tradeoff_r2")),
        head,
        text,
        column="tradeoff_r2",
        chart="token-map",
        formula=formula_id(tables, "tradeoff_r2"),
        place=at(top),
    )


def _way(row: Row) -> str:
    slope = number(row, "tradeoff_slope")
    if math.isnan(slope):
        return "The spread V of a unit goes with the squared norm M of its mean"
    turn = "spread less" if slope < 0 else "spread more"
    return f"Units whose mean lies farther from the origin (larger M) {turn} (V)"


def _fit(row: Row) -> str:
    return f"{with_error(row, 'tradeoff_r2')} with slope {with_error(row, 'tradeoff_slope')}"


def _yardstick(row: Row) -> str:
    return " A slope of −1 would give all units one Q." if number(row, "tradeoff_slope") < 0 else ""


def _falling(rows: list[Row], top: Row) -> str:
    """Where the tightest fit rises, say where the tightest that falls is: that alone is a trade-off."""
    if not number(top, "tradeoff_slope") >= 0:
        return ""
    best = highest([row for row in rows if number(row, "tradeoff_slope") < 0], "tradeoff_r2")
    if best is None:
        return " At no layer do they spread less."
    return f" Where they spread less, the fit is tightest {at(best)}: R² {_fit(best)}."


def _other(tables: Tables, base: str, top: Row) -> str:
    """Say where it is tightest without the first position and without massive ones, where that differs."""
    told: list[str] = []
    for name, words in NAMES.items() if base == "all" else ():
        rows = layer_rows(tables, name)
        other = highest(rows, "tradeoff_r2")
        if other is None or abs(number(other, "tradeoff_r2") - number(top, "tradeoff_r2")) < APART:
            continue
        fit = f"{at(other)}: R² {_fit(other)}.{_falling(rows, other)}"
        told.append(f" Without {words} it is tightest {fit}")
    return "".join(told)
