"""Where the common mean takes the largest share of the squared norm."""

from __future__ import annotations

import math

from theodolite.report.findings.finding import Finding, at, reference
from theodolite.report.findings.formula_id import formula_id
from theodolite.report.numbers import show
from theodolite.report.rows import Row, layer_rows, number
from theodolite.report.tables import Tables


def makeup(tables: Tables) -> Finding | None:
    """Say where M/Q is greatest, and how the rest of Q divides into spread between and within units there."""
    rows = layer_rows(tables, reference(tables, "q"))
    known = [row for row in rows if math.isfinite(_share(row, "m"))]
    if not known:
        return None
    top = max(known, key=lambda row: _share(row, "m"))
    between, within = _share(top, "v_between"), _share(top, "v_within")
    rest = f" Spread between units is {show(between)} of it and spread within units {show(within)}."
    share = show(_share(top, "m"))
    error = number(top, "m_of_q_se")
    give = f" ± {show(error, 2)}" if error > 0 and math.isfinite(error) else ""
    of = f"{share}{give} of the mean squared norm Q {at(top)}"
    text = f"The mean of all vectors makes up {of}, the most of any layer."
    both = math.isfinite(between) and math.isfinite(within)
    return Finding(
        "makeup",
        share,
        f"largest M/Q, {at(top)}",
        text + (rest if both else ""),
        column="m",
        chart="decomposition",
        formula=formula_id(tables, "m"),
        place=at(top),
    )


def _share(row: Row, column: str) -> float:
    return number(row, column) / number(row, "q") if number(row, "q") > 0 else math.nan
