"""How the length of a vector changes on its way through the model."""

from __future__ import annotations

from theodolite.report.findings.finding import Finding, at, highest, lowest, reference
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import layer_rows, number
from theodolite.report.tables import Tables


def norms(tables: Tables) -> Finding | None:
    """Say where the median norm is least and greatest, and by what factor they differ."""
    rows = layer_rows(tables, reference(tables, "norm_p50"))
    low, high = lowest(rows, "norm_p50"), highest(rows, "norm_p50")
    if low is None or high is None:
        return None
    least, most = number(low, "norm_p50"), number(high, "norm_p50")
    longest = highest(rows, "norm_max")
    far = f" The longest vector has norm {show(number(longest, 'norm_max'))}, {at(longest)}." if longest else ""
    if least <= 0 or len(rows) == 1:
        text = f"The median norm is {show(most)} {at(high)}.{far}"
        return _made(tables, show(most), f"median norm, {at(high)}", text, at(high))
    text = f"The median norm is least {at(low)}, {show(least)}, and greatest {at(high)}, {show(most)}.{far}"
    head = "shortest to longest layer, by median norm"
    return _made(tables, f"{show(most / least, 3)}×", head, text, f"{at(low)} and {at(high)}")


def _made(tables: Tables, figure: str, headline: str, text: str, place: str) -> Finding:
    definition = formula_id(tables, "norm_p50")
    return Finding(
        "norms", figure, headline, text, column="norm_p50", chart="norms", formula=definition, place=place
    )
