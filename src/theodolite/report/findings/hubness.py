"""Whether a few vectors are among the nearest of far too many others: hubs, which crowd what a search returns."""

from __future__ import annotations

from theodolite.report.findings.finding import Finding, at, highest, reference, with_error
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import layer_rows, number
from theodolite.report.tables import Tables

# The skewness of a normal law is 0, of an exponential one 2: from here on a few vectors stand far out.
HUBS = 3.0


def hubness(tables: Tables) -> Finding | None:
    """Say where hubs are strongest, where there are any."""
    top = highest(layer_rows(tables, reference(tables, "hubness_skew")), "hubness_skew")
    if top is None or number(top, "hubness_skew") < HUBS:
        return None
    return Finding(
        "hubness",
        show(number(top, "hubness_skew"), 3),
        f"strongest hubness, {at(top)}",
        "How often a vector is among the 10 nearest of others has a skewness of "
        f"{with_error(top, 'hubness_skew')} {at(top)}: a few vectors are neighbours of very many, and a search by "
        "distance returns them too often.",
        column="hubness_skew",
        chart="profiles",
        formula=formula_id(tables, "hubness_skew"),
        place=at(top),
    )
