"""Findings on anisotropy: where it is highest, and whether a few positions cause it."""

from __future__ import annotations

import math

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import Finding, differs, first_population, highest, locate, with_error
from theodolite.report.findings.rogue import name_main_coordinate
from theodolite.report.tables import Row, Tables, layer_rows, number, select_defined
from theodolite.text import format_number, join_words

# Positions cause a value if it falls by at least half, and by at least this much, without them.
MAIN_DROP = 0.1
# Positions cause part of a value if it falls by at least a tenth, and by at least this much.
PART_DROP = 0.02

EXCLUDED = {"without-first": "the first position", "without-massive": "massive activations"}


def find_mean_cosine_peak(tables: Tables) -> Finding | None:
    """Describe where the mean cosine is highest and which positions cause it."""
    return _find_peak(
        tables, "mean_cosine", "mean cosine", "The average cosine of two positions is {value} {place}"
    )


def find_svd_peak(tables: Tables) -> Finding | None:
    """Describe where the SVD anisotropy is highest and which positions cause it."""
    return _find_peak(
        tables, "anisotropy_svd", "SVD anisotropy", "One direction holds {value} of the variance {place}"
    )


def _find_peak(tables: Tables, column: str, label: str, lead: str) -> Finding | None:
    base = first_population(tables, column)
    rows = layer_rows(tables, base)
    top = highest(rows, column)
    if top is None:
        return None
    sentence = lead.format(value=with_error(top, column), place=locate(top)) + _compare_layers(rows, column, top)
    coordinate = name_main_coordinate(top) if column == "mean_cosine" else ""
    cause = _describe_cause(tables, base, column, top) + _describe_other_peak(tables, base, column, top)
    return Finding(
        column,
        format_number(number(top, column)),
        f"highest {label}, {locate(top)}",
        " ".join(part for part in (sentence, coordinate, cause) if part),
        column=column,
        chart="profiles",
        formula=find_formula_id(tables, column),
        place=locate(top),
    )


def _compare_layers(rows: list[Row], column: str, top: Row) -> str:
    """Return that this layer has the highest value, and which other layer is within the error of it."""
    others = [row for row in select_defined(rows, column) if row is not top]
    if not others:
        return "."
    next_best = highest(others, column) or {}
    pairs = [(number(row, column), number(row, f"{column}_se")) for row in (top, next_best)]
    (a, a_error), (b, b_error) = pairs
    known = math.isfinite(a_error) and math.isfinite(b_error)
    near = known and not differs(a, b, a_error, b_error)
    other = f"; the {format_number(b)} {locate(next_best)} is within the error" if near else ""
    return f", the highest of all layers{other}."


def _describe_cause(tables: Tables, base: str, column: str, top: Row) -> str:
    if base != "all" and not layer_rows(tables, "all"):
        return f"This is for the population {base}; the population all was not measured."
    if base != "all":
        return _describe_with_sinks(tables, base, column, top)
    without = {name: _value_at(tables, name, column, top) for name in EXCLUDED}
    known = {name: value for name, value in without.items() if math.isfinite(value)}
    if not known:
        return "No other population was measured, so it is not known which positions cause it."
    values = " and ".join(f"{format_number(value)} without {EXCLUDED[name]}" for name, value in known.items())
    return f"{attribute_peak(number(top, column), known)}: it is {values}."


def _describe_with_sinks(tables: Tables, base: str, column: str, top: Row) -> str:
    """Describe what the positions that the population excludes do to the value and to its peak."""
    rows = layer_rows(tables, "all")
    value, peak = _value_at(tables, "all", column, top), highest(rows, column)
    if peak is None or not math.isfinite(value):
        return f"This is for the population {base}."
    at_most = (
        f", and at most {format_number(number(peak, column))}, {locate(peak)}"
        if number(peak, "layer") != number(top, "layer")
        else ""
    )
    return f"This is for the population {base}; with all positions it is {format_number(value)}{at_most}."


def attribute_peak(value: float, without: dict[str, float]) -> str:
    """Return which positions cause a value, given the value without each kind.

    >>> attribute_peak(0.99, {"without-first": 0.12, "without-massive": 0.12})
    'The first position causes it'
    >>> attribute_peak(0.51, {"without-first": 0.51, "without-massive": 0.5})
    'It is not caused by the first position or massive activations'
    """
    main = _main_causes(value, without)
    part = [name for name, rest in without.items() if value - rest >= PART_DROP and rest <= 0.9 * value]
    if "without-first" in main:
        return "The first position causes it"
    if main:
        beyond = ", not only at the first position," if "without-first" in without else ""
        return f"Massive activations{beyond} cause it"
    if part:
        verb = "causes" if part == ["without-first"] else "cause"
        return f"{join_words([EXCLUDED[name] for name in part]).capitalize()} {verb} part of it"
    return f"It is not caused by {join_words([EXCLUDED[name] for name in without], 'or')}"


def _main_causes(value: float, without: dict[str, float]) -> list[str]:
    return [name for name, rest in without.items() if value - rest >= MAIN_DROP and rest <= value / 2]


def _describe_other_peak(tables: Tables, base: str, column: str, top: Row) -> str:
    """Describe the peak without the positions that cause it, and name the population that excludes them."""
    if base != "all":
        return ""
    without = {name: _value_at(tables, name, column, top) for name in EXCLUDED}
    causes = _main_causes(
        number(top, column), {name: value for name, value in without.items() if math.isfinite(value)}
    )
    # Massive activations include those of the first position: if both cause it, exclude the massive ones.
    excluding = "without-massive" if "without-massive" in causes or not causes else causes[0]
    other = highest(layer_rows(tables, excluding), column)
    if other is None:
        return ""
    moved = number(other, "layer") != number(top, "layer")
    peak = (
        f" Without {EXCLUDED[excluding]} the peak is {format_number(number(other, column))}, {locate(other)}."
        if moved
        else ""
    )
    return peak + (f" The population {excluding} shows the other positions by themselves." if causes else "")


def _value_at(tables: Tables, population: str, column: str, top: Row) -> float:
    layer = number(top, "layer")
    rows = [row for row in layer_rows(tables, population) if number(row, "layer") == layer]
    return number(rows[0], column) if rows else math.nan
