"""Findings on the length of the vectors: the share of their mean, and the median norm by layer."""

from __future__ import annotations

import math

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.anisotropy import EXCLUDED, PART_DROP
from theodolite.report.findings.finding import Finding, first_population, highest, locate, lowest, with_error
from theodolite.report.tables import Row, Tables, layer_rows, number, select_defined
from theodolite.text import format_number


def find_norms(tables: Tables) -> Finding | None:
    """Describe where the median norm is lowest and highest, and by what factor they differ."""
    rows = layer_rows(tables, first_population(tables, "norm_p50"))
    low, high = lowest(rows, "norm_p50"), highest(rows, "norm_p50")
    if low is None or high is None:
        return None
    least, most = number(low, "norm_p50"), number(high, "norm_p50")
    longest = highest(rows, "norm_max")
    far = (
        f" The longest vector has norm {format_number(number(longest, 'norm_max'))}, {locate(longest)}."
        if longest
        else ""
    )
    if least <= 0 or len(rows) == 1:
        text = f"The median norm is {format_number(most)} {locate(high)}.{far}"
        return _norm_finding(tables, format_number(most), f"median norm, {locate(high)}", text, locate(high))
    if format_number(least) == format_number(most):
        text = f"The median norm is {format_number(most)} at every layer.{far}"
        return _norm_finding(tables, format_number(most), "median norm, at every layer", text, "at every layer")
    ends = [f"{locate(row)} ({format_number(value)})" for row, value in ((low, least), (high, most))]
    text = f"The median norm is lowest {ends[0]} and highest {ends[1]}.{far}"
    head = "highest median norm over the lowest"
    return _norm_finding(
        tables, f"{format_number(most / least, 3)}×", head, text, f"{locate(low)} and {locate(high)}"
    )


def _norm_finding(tables: Tables, figure: str, headline: str, text: str, place: str) -> Finding:
    definition = find_formula_id(tables, "norm_p50")
    return Finding(
        "norms", figure, headline, text, column="norm_p50", chart="norms", formula=definition, place=place
    )


def find_mean_share(tables: Tables) -> Finding | None:
    """Describe where M/Q is highest, how the rest of Q is divided, and the value without some positions."""
    base = first_population(tables, "m_of_q")
    rows = layer_rows(tables, base)
    top = highest(rows, "m_of_q")
    if top is None:
        return None
    most = ", the highest of all layers" if len(select_defined(rows, "m_of_q")) > 1 else ""
    share = with_error(top, "m_of_q")
    text = f"The squared norm of the mean vector (M) is {share} of the mean squared norm (Q) {locate(top)}{most}."
    return Finding(
        "makeup",
        format_number(number(top, "m_of_q")),
        f"highest M/Q, {locate(top)}",
        text + _describe_variance(top) + (_without_positions(tables, top) if base == "all" else ""),
        column="m_of_q",
        chart="decomposition",
        formula=find_formula_id(tables, "m"),
        place=locate(top),
    )


def _describe_variance(top: Row) -> str:
    between, within = number(top, "v_between_of_q"), number(top, "v_within_of_q")
    if not (math.isfinite(between) and math.isfinite(within)):
        return ""
    return f" Variance between units is {format_number(between)} of it, within units {format_number(within)}."


def _without_positions(tables: Tables, top: Row) -> str:
    """Describe the largest share without the first position and without massive ones, if it differs."""
    sentences = ""
    for name, words in EXCLUDED.items():
        other = highest(layer_rows(tables, name), "m_of_q")
        if other is not None and abs(number(other, "m_of_q") - number(top, "m_of_q")) >= PART_DROP:
            sentences += (
                f" Without {words} it is at most {format_number(number(other, 'm_of_q'))}, {locate(other)}."
            )
    return sentences
