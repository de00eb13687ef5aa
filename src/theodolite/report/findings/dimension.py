"""Findings on dimension: how many directions and dimensions the vectors use, and whether there are hubs."""

from __future__ import annotations

import math

from theodolite.report.catalogue import find_formula_id
from theodolite.report.findings.finding import Finding, first_population, highest, locate, lowest, with_error
from theodolite.report.tables import Row, Tables, layer_rows, number, select_defined
from theodolite.text import format_number, pluralize

MEASURES = (
    ("effective_rank", "effective rank"),
    ("participation_ratio", "participation ratio"),
    ("twonn", "TwoNN"),
)
# A second population is reported if an end of its range differs by this factor.
FACTOR = 1.25


def find_dimension(tables: Tables) -> Finding | None:
    """Describe the range of each dimension over layers, and how it changes without massive activations."""
    base = next((name for column, _ in MEASURES if (name := first_population(tables, column))), "")
    rows = layer_rows(tables, base)
    spans = [text for column, label in MEASURES if (text := _describe_range(rows, column, label))]
    if not spans:
        return None
    column, label = next((column, label) for column, label in MEASURES if lowest(rows, column) is not None)
    low, high = number(lowest(rows, column) or {}, column), number(highest(rows, column) or {}, column)
    dims = max((number(row, "dim") for row in rows if math.isfinite(number(row, "dim"))), default=math.nan)
    of = f", in {pluralize(dims, 'coordinate')}" if math.isfinite(dims) else ""
    other = _without_massive(tables, base, rows, column, label)
    text = f"{'; '.join(spans)}{of}.{_compare_rank_with_twonn(rows)}{other}"
    return Finding(
        "dimension",
        format_number(low, 3) if low == high else f"{format_number(low, 3)} – {format_number(high, 3)}",
        f"{label}, lowest to highest",
        text[0].upper() + text[1:],
        column=column,
        chart="spectra",
        formula=find_formula_id(tables, column),
    )


def _compare_rank_with_twonn(rows: list[Row]) -> str:
    """Compare the two kinds of dimension at the last layer that has both."""
    both = [row for row in select_defined(rows, "effective_rank") if math.isfinite(number(row, "twonn"))]
    if not both:
        return ""
    rank, near = format_number(number(both[-1], "effective_rank")), with_error(both[-1], "twonn")
    wide = "direction" if rank == "1" else "directions"
    place = locate(both[-1])
    return (
        f" {place[0].upper()}{place[1:]} the variance spreads over {rank} {wide}, and nearest neighbours "
        f"give {near} dimensions (TwoNN)."
    )


def _describe_range(rows: list[Row], column: str, label: str) -> str:
    low, high = lowest(rows, column), highest(rows, column)
    if low is None or high is None:
        return ""
    if number(low, column) == number(high, column):
        return f"{label} {format_number(number(low, column))} {locate(low)}"
    ends = [f"{format_number(number(row, column))} {locate(row)}" for row in (low, high)]
    return f"{label} from {' to '.join(ends)}"


def _without_massive(tables: Tables, base: str, rows: list[Row], column: str, label: str) -> str:
    others = layer_rows(tables, "without-massive") if base == "all" else []
    pairs = [(pick(rows, column), pick(others, column)) for pick in (lowest, highest)]
    changed = [_ratio(number(a, column), number(b, column)) > FACTOR for a, b in pairs if a and b]
    if not any(changed):
        return ""
    return f" Without massive activations: {_describe_range(others, column, label)} (population without-massive)."


def _ratio(a: float, b: float) -> float:
    return max(a / b, b / a) if a > 0 and b > 0 else 1.0


# The skewness of a normal distribution is 0, of an exponential one 2: above this, a few vectors are hubs.
HUBS = 3.0


def find_hubs(tables: Tables) -> Finding | None:
    """Describe where hubs are strongest; None if there are none."""
    top = highest(layer_rows(tables, first_population(tables, "hubness_skew")), "hubness_skew")
    if top is None or number(top, "hubness_skew") < HUBS:
        return None
    return Finding(
        "hubness",
        format_number(number(top, "hubness_skew"), 3),
        f"strongest hubness, {locate(top)}",
        "The number of times a vector is among the 10 nearest neighbours of others has a skewness of "
        f"{with_error(top, 'hubness_skew')} {locate(top)}: a few vectors are neighbours of very many others, "
        "and a nearest-neighbour search returns them too often.",
        column="hubness_skew",
        chart="profiles",
        formula=find_formula_id(tables, "hubness_skew"),
        place=locate(top),
    )
