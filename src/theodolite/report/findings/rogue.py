"""Whether one coordinate, or a few, make the mean cosine or hold the variance: rogue dimensions."""

from __future__ import annotations

import math
from collections import Counter

from theodolite.naming import several
from theodolite.report.findings.finding import ERRORS, Finding, at, highest, reference
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import count, percent, show
from theodolite.report.rows import Row, defined, layer_rows, number
from theodolite.report.tables import Tables

# A coordinate is called rogue where it makes this much of the mean cosine; of 384 alike, each would make 0.0026.
ROGUE = 0.1
# A share of next to nothing is no share: the mean cosine must be this large, and larger than its errors.
LEAST = 0.01
# Above this share, one coordinate stands behind the mean cosine, and is named wherever that is told.
HALF = 0.5
# The coordinate that varies most is worth a sentence where it has this share of the variance.
WIDE = 0.1


def rogue(tables: Tables) -> Finding | None:
    """Say which coordinate makes most of the mean cosine, how few make half, and whether it stays the same."""
    base = reference(tables, "rogue_cosine_share")
    rows = [row for row in defined(layer_rows(tables, base), "rogue_cosine_share") if _telling(row)]
    top = highest(rows, "rogue_cosine_share")
    if top is None:
        return None
    share = number(top, "rogue_cosine_share")
    text = " ".join(part for part in (_share(top), _same(rows, top), _variance(tables)) if part)
    label = "of the mean cosine from one coordinate" if share >= ROGUE else "of the mean cosine at most, no rogue"
    return Finding(
        "rogue",
        percent(share),
        f"{label}, {at(top)}",
        text,
        column="rogue_cosine_share",
        chart="profiles",
        formula=formula_id(tables, "rogue_cosine_share"),
        place=at(top),
    )


def behind(row: Row) -> str:
    """Name the coordinate that makes more than half of a row's mean cosine; empty where none does.

    >>> behind({"mean_cosine": 0.9, "rogue_cosine_share": 0.977, "rogue_coordinate": 7})
    '97.7% of it is made by coordinate 7.'
    """
    share = number(row, "rogue_cosine_share")
    if not made_by_one(row):
        return ""
    return f"{percent(share)} of it is made by {_name(row, 'rogue_coordinate')}{_taken(share)}."


def made_by_one(row: Row) -> bool:
    """Say whether one coordinate makes more than half of a mean cosine that is not nothing."""
    return number(row, "rogue_cosine_share") > HALF and _telling(row)


def _taken(share: float) -> str:
    """Say what a share above 1 means."""
    return f"; the other coordinates together take {percent(share - 1)} away" if share > 1 else ""


def _telling(row: Row) -> bool:
    value, error = number(row, "mean_cosine"), number(row, "mean_cosine_se")
    return value >= LEAST and not value <= ERRORS * error


def _share(row: Row) -> str:
    share, whole = number(row, "rogue_cosine_share"), show(number(row, "mean_cosine"))
    few, dims = number(row, "rogue_half"), number(row, "dim")
    of = f" of {count(dims)}" if math.isfinite(dims) else ""
    half = f"; {count(few)} coordinates{of} make half of it" if few > 1 and math.isfinite(few) else ""
    name = _name(row, "rogue_coordinate")
    made = f"{percent(share)} of the mean cosine of {whole} {at(row)}{_taken(share)}"
    return f"{name[0].upper()}{name[1:]} alone makes {made}{half}."


def _same(rows: list[Row], top: Row) -> str:
    """Say at how many layers the same coordinate leads, and which leads at most of them."""
    led = Counter(round(number(row, "rogue_coordinate")) for row in defined(rows, "rogue_coordinate"))
    layers = sum(led.values())
    if layers < 2:
        return ""
    mine = round(number(top, "rogue_coordinate")) if math.isfinite(number(top, "rogue_coordinate")) else -1
    most, times = led.most_common(1)[0]
    if times == layers:
        return f"The same coordinate makes most of it at all {layers} layers."
    if most == mine:
        return f"It leads at {times} of {layers} layers; {several(len(led) - 1, 'other')} at the rest."
    return (
        f"Which coordinate leads changes with depth: {mine} at {led[mine]} of {layers} layers, {most} at {times}, "
        f"{several(len(led), 'coordinate')} in all."
    )


def _variance(tables: Tables) -> str:
    base = reference(tables, "rogue_variance_share")
    top = highest(layer_rows(tables, base), "rogue_variance_share")
    if top is None or number(top, "rogue_variance_share") < WIDE:
        return ""
    name = _name(top, "rogue_variance_coordinate")
    said = (
        f"{name[0].upper()}{name[1:]} has {percent(number(top, 'rogue_variance_share'))} of the variance {at(top)}"
    )
    rest = [row for row in layer_rows(tables, "without-massive") if number(row, "layer") == number(top, "layer")]
    left = number(rest[0], "rogue_variance_share") if rest and base == "all" else math.nan
    if math.isfinite(left) and left <= number(top, "rogue_variance_share") / 2:
        return f"{said}; without massive activations no coordinate there has more than {percent(left)}."
    return f"{said}."


def _name(row: Row, column: str) -> str:
    value = number(row, column)
    return f"coordinate {round(value)}" if math.isfinite(value) else "one coordinate"
