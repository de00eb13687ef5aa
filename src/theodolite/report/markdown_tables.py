"""The tables of the Markdown report: layers, surveys side by side, steps of a training, units at the extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from theodolite.naming import several
from theodolite.report.columns import COUNTS
from theodolite.report.findings import Finding, findings
from theodolite.report.findings.finding import at, highest
from theodolite.report.findings.labels import labels
from theodolite.report.findings.training import MEASURES, over_steps
from theodolite.report.markdown_text import name, prose, token
from theodolite.report.numbers import UNDEFINED, cell, count, show
from theodolite.report.rows import Row, layer_name, layer_rows, number
from theodolite.report.strongest import Extremes, Unit
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors

LAYERS = {
    "n": "n",
    "q": "Q",
    "m_of_q": "M/Q",
    "mean_cosine": "mean cosine",
    "anisotropy_svd": "SVD",
    "effective_rank": "eff. rank",
    "participation_ratio": "PR",
    "twonn": "TwoNN",
    "tradeoff_slope": "slope",
    "tradeoff_r2": "R²",
    "norm_p50": "median norm",
}
SIDES = {
    "mean_cosine": "highest mean cosine",
    "anisotropy_svd": "highest SVD anisotropy",
    "without-massive": "the same without massive",
    "makeup": "largest M/Q",
    "tradeoff": "highest R² of V on M",
    "dimension": "effective rank",
    "rogue": "largest share of a coordinate",
    "norms": "median norm, most / least",
}
PLACED = ("mean_cosine", "anisotropy_svd", "without-massive", "makeup", "tradeoff", "rogue")
EXTREMES = {"m-high": "largest M", "m-low": "smallest M", "v-high": "largest V", "v-low": "smallest V"}
MOST_ROWS = 100


def layer_table(tables: Tables, population: str) -> str:
    """Return one population's layers, a dozen columns at most; columns that are nowhere defined are left out."""
    rows = [_with_share(row) for row in layer_rows(tables, population)]
    columns = [column for column in LAYERS if any(math.isfinite(number(row, column)) for row in rows)]
    body = [[prose(_layer(row)), *(_cell(row, column) for column in columns)] for row in rows]
    return grid(["layer", *(LAYERS[column] for column in columns)], body)


def side_by_side(surveys: Sequence[Tables]) -> str:
    """Return the figure of each finding, a row a survey; findings that no survey has are left out."""
    found = [{one.key: one for one in [*findings(tables), *_without_massive(tables)]} for tables in surveys]
    keys = [key for key in SIDES if any(key in each for each in found)]
    body = []
    for label, each in zip(labels(surveys), found, strict=True):
        cells = [
            prose(f"{each[key].figure} {each[key].place if key in PLACED else ''}".strip())
            if key in each
            else UNDEFINED
            for key in keys
        ]
        body.append([prose(name(label)), *cells])
    return grid(["survey", *(SIDES[key] for key in keys)], body)


def _without_massive(tables: Tables) -> list[Finding]:
    """A few positions can make all of the SVD anisotropy: its peak without them stands beside."""
    top = highest(layer_rows(tables, "without-massive"), "anisotropy_svd")
    if top is None:
        return []
    place = "" if of_vectors(tables) else at(top)
    return [Finding("without-massive", show(number(top, "anisotropy_svd")), "", "", place=place)]


def step_table(series: Tables, population: str) -> str:
    """Return the means over blocks of a few measures, a row a step."""
    curves = {label: over_steps(series, population, column)[0] for column, label in MEASURES.items()}
    told = {label.removeprefix("the "): curve for label, curve in curves.items() if curve}
    steps = [moment.step for moment in next(iter(told.values()), [])]
    body = [[count(step), *(cell(curve[i].value) for curve in told.values())] for i, step in enumerate(steps)]
    return grid(["step", *told], body)


def extremes_table(one: Extremes) -> str:
    """Return the units at the ends of a layer, a column a list, each with the number that put it there."""
    lists = {key: units for key, units in one.lists.items() if units}
    length = max((len(units) for units in lists.values()), default=0)
    body = [
        [_unit(units[i], key[0]) if i < len(units) else "" for key, units in lists.items()] for i in range(length)
    ]
    return grid([EXTREMES[key] for key in lists], body, align="left")


def grid(heads: Sequence[str], body: Sequence[Sequence[str]], align: str = "right") -> str:
    """Return a table; what stands in the cells is Markdown already. The first column is always to the left."""
    if not body:
        return ""
    sides = [":--", *(["--:"] if align == "right" else [":--"]) * (len(heads) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, sides, *body[:MOST_ROWS])]
    more = len(body) - MOST_ROWS
    return "\n".join([*lines, *([f"\n… and {several(more, 'row')} more"] if more > 0 else [])])


def _layer(row: Row) -> str:
    shown = name(layer_name(row))
    number_of = f"{number(row, 'layer'):g}"
    return shown if shown in (f"layer {number_of}", f"block {number_of}") else f"{number_of} {shown}"


def _with_share(row: Row) -> Row:
    whole = number(row, "q")
    return row | {"m_of_q": number(row, "m") / whole if whole > 0 else math.nan}


def _cell(row: Row, column: str) -> str:
    value = number(row, column)
    return count(value) if column in COUNTS and math.isfinite(value) else cell(value)


def _unit(unit: Unit, column: str) -> str:
    return f"{token(unit.text)} {cell(getattr(unit, column))}"
