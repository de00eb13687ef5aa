"""Where the mean squared norm comes from: M/Q, V_B/Q and V_W/Q, stacked to one."""

from __future__ import annotations

import math

from theodolite.report.chart import Chart, Series
from theodolite.report.rows import Row, layer_name, layer_rows, number
from theodolite.report.tables import Tables

PARTS = (
    ("m", "M/Q, the common mean"),
    ("v_between", "V_B/Q, between units"),
    ("v_within", "V_W/Q, within units"),
    ("v", "V/Q, not divided"),
)


def shares(tables: Tables, population: str, x_label: str) -> Chart:
    """Return the shares of Q at every layer of one population; V undivided only where V_W or V_B is unknown."""
    rows = layer_rows(tables, population)
    stack = tuple(
        Series(
            name,
            style,
            x=tuple(number(row, "layer") for row in rows),
            y=tuple(_share(row, column) for row in rows),
            places=tuple(layer_name(row) for row in rows),
        )
        for style, (column, name) in enumerate(PARTS)
    )
    return Chart(
        key=f"shares-{population if population in ('all', 'without-first', 'without-massive') else 'other'}",
        title=f"What Q is made of, {population}",
        caption="Q = M + V_B + V_W: offset of the whole, spread between units, spread within each.",
        series=tuple(one for one in stack if any(math.isfinite(y) for y in one.y)),
        kind="stack",
        x_label=x_label,
    )


def _share(row: Row, column: str) -> float:
    divided = math.isfinite(number(row, "v_within")) and math.isfinite(number(row, "v_between"))
    if (column == "v") == divided and column != "m":
        return math.nan
    whole = number(row, "q")
    share = number(row, column) / whole if whole > 0 else math.nan
    return share if math.isfinite(share) else math.nan
