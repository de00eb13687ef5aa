"""A column of the layer table as a small chart, a line a population: what stands beside a finding."""

from __future__ import annotations

import math

from theodolite.report.chart import Chart, Series
from theodolite.report.rows import layer_name, layer_rows, number, populations, reasons, style_of
from theodolite.report.tables import Tables


def line_chart(tables: Tables, column: str, title: str) -> Chart:
    """Return one column as a chart, a line a population."""
    known = populations(tables)
    series = tuple(_series(tables, name, style_of(name, known), column) for name in known)
    said = [reasons(row).get(column, "") for name in known for row in layer_rows(tables, name)]
    why = next((reason for reason in said if reason), "")
    return Chart(column.replace("_", "-"), title, series, x_label=layer_axis(tables), reason=why, column=column)


def layer_axis(tables: Tables) -> str:
    """Name the x axis, with what its first and last layer are."""
    rows = [row for name in populations(tables)[:1] for row in layer_rows(tables, name)]
    ends = [row for row in (rows[:1] + rows[-1:]) if isinstance(row.get("layer_name"), str)]
    told = list(dict.fromkeys(f"{number(row, 'layer'):g} {layer_name(row)}" for row in ends))
    return f"layer ({' … '.join(told)})" if told else "layer"


def _series(tables: Tables, population: str, style: int, column: str) -> Series:
    rows = layer_rows(tables, population)
    return Series(
        population,
        style,
        x=tuple(number(row, "layer") for row in rows),
        y=tuple(_finite(number(row, column)) for row in rows),
        places=tuple(layer_name(row) for row in rows),
    )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan
