"""Where the common mean takes the largest share of the squared norm."""

from __future__ import annotations

import math

from theodolite.report.findings.anisotropy import NAMES, SOME
from theodolite.report.findings.finding import Finding, at, highest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import Row, defined, layer_rows, number
from theodolite.report.tables import Tables


def makeup(tables: Tables) -> Finding | None:
    """Say where M/Q is greatest, how the rest of Q divides there, and what it is without some positions."""
    base = reference(tables, "m_of_q")
    rows = layer_rows(tables, base)
    top = highest(rows, "m_of_q")
    if top is None:
        return None
    most = ", the most of any layer" if len(defined(rows, "m_of_q")) > 1 else ""
    share = with_error(top, "m_of_q")
    text = f"The mean of all vectors makes up {share} of the mean squared norm Q {at(top)}{most}."
    return Finding(
        "makeup",
        show(number(top, "m_of_q")),
        f"largest M/Q, {at(top)}",
        text + _rest(top) + (_without(tables, top) if base == "all" else ""),
        column="m_of_q",
        chart="decomposition",
        formula=formula_id(tables, "m"),
        place=at(top),
    )


def _rest(top: Row) -> str:
    between, within = number(top, "v_between_of_q"), number(top, "v_within_of_q")
    if not (math.isfinite(between) and math.isfinite(within)):
        return ""
    return f" Spread between units is {show(between)} of it and spread within units {show(within)}."


def _without(tables: Tables, top: Row) -> str:
    """Say what the largest share is without the first position and without massive ones, where it is another."""
    told = ""
    for name, words in NAMES.items():
        other = highest(layer_rows(tables, name), "m_of_q")
        if other is not None and abs(number(other, "m_of_q") - number(top, "m_of_q")) >= SOME:
            told += f" Without {words} it is {show(number(other, 'm_of_q'))} at most, {at(other)}."
    return told
