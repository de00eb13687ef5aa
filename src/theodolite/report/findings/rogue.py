"""Findings on rogue coordinates: whether a few coordinates dominate the mean cosine or the variance."""

from __future__ import annotations

import math
from collections import Counter

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import ERRORS, Finding, first_population, highest, locate
from theodolite.report.tables import Row, Tables, layer_rows, number, select_defined
from theodolite.text import format_count, format_number, format_percent, pluralize

# A coordinate is rogue if it contributes this share of the mean cosine; each of 384 equal ones has 0.0026.
ROGUE_SHARE = 0.1
# A share of a mean cosine near 0 means nothing: the mean cosine must be this large and exceed its errors.
LEAST_COSINE = 0.01
# Above this share, one coordinate dominates the mean cosine and is named wherever that is reported.
MAIN_SHARE = 0.5
# The coordinate with the highest variance is reported if it has this share of the variance.
VARIANCE_SHARE = 0.1


def find_rogue(tables: Tables) -> Finding | None:
    """Describe which coordinate contributes most to the mean cosine, and whether it is the same at all layers."""
    base = first_population(tables, "rogue_cosine_share")
    rows = [row for row in select_defined(layer_rows(tables, base), "rogue_cosine_share") if _is_cosine_large(row)]
    top = highest(rows, "rogue_cosine_share")
    if top is None:
        return None
    share = number(top, "rogue_cosine_share")
    text = " ".join(
        part for part in (_describe_share(top), _compare_layers(rows, top), _describe_variance(tables)) if part
    )
    label = (
        "of the mean cosine from one coordinate"
        if share >= ROGUE_SHARE
        else "of the mean cosine at most: no rogue coordinate"
    )
    return Finding(
        "rogue",
        format_percent(share),
        f"{label}, {locate(top)}",
        text,
        column="rogue_cosine_share",
        chart="profiles",
        formula=find_formula_id(tables, "rogue_cosine_share"),
        place=locate(top),
    )


def name_main_coordinate(row: Row) -> str:
    """Name the coordinate that contributes more than half of a row's mean cosine; empty if none does.

    >>> name_main_coordinate({"mean_cosine": 0.9, "rogue_cosine_share": 0.977, "rogue_coordinate": 7})
    'Coordinate 7 contributes 97.7% of it.'
    """
    share = number(row, "rogue_cosine_share")
    if not is_dominated_by_one(row):
        return ""
    name = _coordinate_name(row, "rogue_coordinate")
    return f"{name} contributes {format_percent(share)} of it{_explain_above_one(share)}."


def is_dominated_by_one(row: Row) -> bool:
    """Return whether one coordinate contributes more than half of a mean cosine that is not close to 0."""
    return number(row, "rogue_cosine_share") > MAIN_SHARE and _is_cosine_large(row)


def _explain_above_one(share: float) -> str:
    """Explain a share above 1."""
    return f"; the other coordinates together subtract {format_percent(share - 1)}" if share > 1 else ""


def _is_cosine_large(row: Row) -> bool:
    value, error = number(row, "mean_cosine"), number(row, "mean_cosine_se")
    return value >= LEAST_COSINE and not value <= ERRORS * error


def _describe_share(row: Row) -> str:
    share, whole = number(row, "rogue_cosine_share"), format_number(number(row, "mean_cosine"))
    few, dims = number(row, "rogue_half"), number(row, "dim")
    of = f" of {format_count(dims)}" if math.isfinite(dims) else ""
    half = f"; {format_count(few)}{of} coordinates contribute half of it" if 1 < few < math.inf else ""
    name = _coordinate_name(row, "rogue_coordinate")
    part = f"{format_percent(share)} of the mean cosine of {whole} {locate(row)}{_explain_above_one(share)}"
    return f"{name} contributes {part}{half}."


def _compare_layers(rows: list[Row], top: Row) -> str:
    """Describe at how many layers the same coordinate contributes most."""
    led = Counter(round(number(row, "rogue_coordinate")) for row in select_defined(rows, "rogue_coordinate"))
    layers = sum(led.values())
    if layers < 2:
        return ""
    mine = round(number(top, "rogue_coordinate")) if math.isfinite(number(top, "rogue_coordinate")) else -1
    most, times = led.most_common(1)[0]
    if times == layers:
        return f"The same coordinate contributes most at all {layers} layers."
    if most == mine:
        others = pluralize(len(led) - 1, "other coordinate")
        return f"It contributes most at {times} of {layers} layers, and {others} at the remaining ones."
    return (
        f"The leading coordinate changes with depth: {mine} at {led[mine]} of {layers} layers, {most} at {times}; "
        f"{pluralize(len(led), 'coordinate')} in all."
    )


def _describe_variance(tables: Tables) -> str:
    base = first_population(tables, "rogue_variance_share")
    top = highest(layer_rows(tables, base), "rogue_variance_share")
    if top is None or number(top, "rogue_variance_share") < VARIANCE_SHARE:
        return ""
    name = _coordinate_name(top, "rogue_variance_coordinate")
    share = number(top, "rogue_variance_share")
    sentence = f"{name} has {format_percent(share)} of the variance {locate(top)}"
    others = [row for row in layer_rows(tables, "without-massive") if number(row, "layer") == number(top, "layer")]
    other = number(others[0], "rogue_variance_share") if others and base == "all" else math.nan
    if math.isfinite(other) and other <= share / 2:
        return (
            f"{sentence}; without massive activations no coordinate has more than {format_percent(other)} there."
        )
    return f"{sentence}."


def _coordinate_name(row: Row, column: str) -> str:
    value = number(row, column)
    return f"Coordinate {round(value)}" if math.isfinite(value) else "One coordinate"
