"""The lists of extreme units as HTML."""

from __future__ import annotations

import math

from theodolite.report.numbers import cell, count, show
from theodolite.report.strongest import Extremes, Unit, extremes
from theodolite.report.tables import Tables
from theodolite.report.text import escape, readable

TITLES = {
    "m-high": ("Farthest from the origin", "largest M"),
    "m-low": ("Nearest to the origin", "smallest M"),
    "v-high": ("Most spread", "largest V"),
    "v-low": ("Least spread", "smallest V"),
}


def token_lists(tables: Tables, level: int) -> str:
    """Return the lists of a middle layer and of the last, headed at `level`."""
    found = extremes(tables)
    if not found:
        return "<p>The survey has no table of units, so there is nothing to list.</p>"
    return "".join(_layer(one, level) for one in found)


def _layer(one: Extremes, level: int) -> str:
    head = f"{one.layer_name} (layer {one.layer:g})"
    lists = "".join(_list(key, units) for key, units in one.lists.items() if units)
    return (
        f"<h{level}>{escape(head)}</h{level}>"
        f'<p class="quiet">Population {escape(one.population)}: {escape(one.chosen)}.</p>'
        f'<div class="lists">{lists}</div>'
    )


def _list(key: str, units: list[Unit]) -> str:
    title, column = TITLES[key]
    sort = {
        name: ' aria-sort="descending"' if key == f"{name}-high" else ' aria-sort="ascending"' for name in "mv"
    }
    heads = "".join(
        f'<th scope="col"{sort[name] if key.startswith(name) else ""}>{name.upper() if name != "n" else name}</th>'
        for name in "nqmv"
    )
    rows = "".join(_unit(unit) for unit in units)
    return (
        f'<table class="units"><caption>{title} <small>{column}</small></caption>'
        f'<thead><tr><th scope="col">unit</th>{heads}<th scope="col" title="M as a share of Q">M/Q</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _unit(unit: Unit) -> str:
    special = ' <span class="special">special</span>' if unit.special else ""
    numbers = "".join(f"<td>{cell(value)}</td>" for value in (unit.q, unit.m, unit.v))
    share = unit.m / unit.q if unit.q > 0 else math.nan
    width = f"{100 * min(max(share, 0.0), 1.0):.0f}" if math.isfinite(share) else "0"
    bar = f'<td><span class="share" title="M/Q {show(share)}"><i style="width:{width}%"></i></span></td>'
    return f'<tr><th scope="row">{readable(unit.text)}{special}</th><td>{count(unit.n)}</td>{numbers}{bar}</tr>'
