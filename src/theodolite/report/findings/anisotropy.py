"""Where the vectors lean the same way most, and whether a few positions alone make it so."""

from __future__ import annotations

import math

from theodolite.report.findings.finding import Finding, apart, at, highest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.findings.rogue import behind
from theodolite.report.numbers import show
from theodolite.report.rows import Row, defined, layer_rows, number
from theodolite.report.tables import Tables

# "Makes it": leaving those positions out takes away at least half, and at least this much.
FAR = 0.1
# "Makes part of it": takes away at least a tenth, and at least this much.
SOME = 0.02

NAMES = {"without-first": "the first position", "without-massive": "massive activations"}


def mean_cosine(tables: Tables) -> Finding | None:
    """Say where the mean cosine peaks and what makes it."""
    return _peak(tables, "mean_cosine", "mean cosine", "Two positions have an average cosine of {value} {place}")


def svd(tables: Tables) -> Finding | None:
    """Say where the SVD anisotropy peaks and what makes it."""
    return _peak(tables, "anisotropy_svd", "SVD anisotropy", "One direction holds {value} of the variance {place}")


def _peak(tables: Tables, column: str, label: str, lead: str) -> Finding | None:
    base = reference(tables, column)
    rows = layer_rows(tables, base)
    top = highest(rows, column)
    if top is None:
        return None
    sentence = lead.format(value=with_error(top, column), place=at(top)) + _rank(rows, column, top)
    coordinate = behind(top) if column == "mean_cosine" else ""
    made = _cause(tables, base, column, top) + _elsewhere(tables, base, column, top)
    return Finding(
        column,
        show(number(top, column)),
        f"highest {label}, {at(top)}",
        " ".join(part for part in (sentence, coordinate, made) if part),
        column=column,
        chart="profiles",
        formula=formula_id(tables, column),
        place=at(top),
    )


def _rank(rows: list[Row], column: str, top: Row) -> str:
    """Say that it is the most of any layer; and which layer comes so near that the error leaves it open."""
    others = [row for row in defined(rows, column) if row is not top]
    if not others:
        return "."
    next_best = highest(others, column) or {}
    pairs = [(number(row, column), number(row, f"{column}_se")) for row in (top, next_best)]
    (a, a_error), (b, b_error) = pairs
    known = math.isfinite(a_error) and math.isfinite(b_error)
    near = known and not apart(a, b, a_error, b_error)
    return f", the most of any layer{f'; {show(b)} {at(next_best)} is within the error' if near else ''}."


def _cause(tables: Tables, base: str, column: str, top: Row) -> str:
    if base != "all":
        return f"This is the population {base}; all positions together were not measured."
    without = {name: _value_at(tables, name, column, top) for name in NAMES}
    known = {name: value for name, value in without.items() if math.isfinite(value)}
    if not known:
        return "No other population was measured, so it is not known which positions make it."
    values = " and ".join(f"{show(value)} without {NAMES[name]}" for name, value in known.items())
    return f"{blame(number(top, column), known)}: it is {values}."


def blame(value: float, without: dict[str, float]) -> str:
    """Say which positions make a value, given what it falls to without each kind.

    >>> blame(0.99, {"without-first": 0.12, "without-massive": 0.12})
    'The first position makes it'
    >>> blame(0.51, {"without-first": 0.51, "without-massive": 0.5})
    'It is not made by the first position or massive activations'
    """
    far = _far(value, without)
    some = [name for name, rest in without.items() if value - rest >= SOME and rest <= 0.9 * value]
    if "without-first" in far:
        return "The first position makes it"
    if far:
        beyond = ", and not only at the first position," if "without-first" in without else ""
        return f"Massive activations{beyond} make it"
    if some:
        return f"{_listed(some, 'and').capitalize()} {'makes' if some == ['without-first'] else 'make'} part of it"
    return f"It is not made by {_listed(list(without), 'or')}"


def _far(value: float, without: dict[str, float]) -> list[str]:
    return [name for name, rest in without.items() if value - rest >= FAR and rest <= value / 2]


def _elsewhere(tables: Tables, base: str, column: str, top: Row) -> str:
    """Say where the peak of the others is, and how to read them alone where a few positions make the whole."""
    if base != "all":
        return ""
    without = {name: _value_at(tables, name, column, top) for name in NAMES}
    made = _far(number(top, column), {name: value for name, value in without.items() if math.isfinite(value)})
    # Massive activations include those of the first position: where both do it, this is the one to leave out.
    rest = "without-massive" if "without-massive" in made or not made else made[0]
    other = highest(layer_rows(tables, rest), column)
    if other is None:
        return ""
    moved = number(other, "layer") != number(top, "layer")
    peak = f" Without {NAMES[rest]} the peak is {show(number(other, column))}, {at(other)}." if moved else ""
    return peak + (f" To read the other positions alone, take the population {rest}." if made else "")


def _value_at(tables: Tables, population: str, column: str, top: Row) -> float:
    layer = number(top, "layer")
    here = [row for row in layer_rows(tables, population) if number(row, "layer") == layer]
    return number(here[0], column) if here else math.nan


def _listed(names: list[str], joint: str) -> str:
    return f" {joint} ".join(NAMES[name] for name in names)
