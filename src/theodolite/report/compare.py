"""Several surveys side by side: mean cosine against depth, 0 the first layer and 1 the last, and figures."""

from __future__ import annotations

from dataclasses import replace

from theodolite.report.chart import Chart, Series
from theodolite.report.findings import findings
from theodolite.report.numbers import UNDEFINED
from theodolite.report.rows import layer_name, layer_rows, number, populations
from theodolite.report.tables import Tables
from theodolite.report.text import escape

HEADS = {
    "mean_cosine": "highest mean cosine",
    "anisotropy_svd": "highest SVD anisotropy",
    "makeup": "largest M/Q",
    "tradeoff": "highest R² of V on M",
    "dimension": "effective rank",
    "norms": "median norm, greatest over least",
}


def compare(surveys: list[Tables]) -> list[Chart]:
    """Return a chart for `all` and one for `without-massive`, a line a survey, each where any survey has it."""
    present = [name for name in ("all", "without-massive") if any(name in populations(s) for s in surveys)]
    charts = [_strip(surveys, name) for name in present]
    # One y axis for both, so that what leaving positions out does is seen at its true size.
    values = [value for chart in charts for one in chart.series for value in one.finite()]
    return [replace(chart, include=(0.0, max(values, default=0.0))) for chart in charts]


def side_by_side(surveys: list[Tables]) -> str:
    """Return the headline figure of each finding, a row a survey, as an HTML table."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADS.values())
    rows = "".join(_figures(tables) for tables in surveys)
    return (
        '<div class="scroll side" tabindex="0" role="region" aria-label="Headline figures"><table>'
        f'<thead><tr><th scope="col">survey</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _figures(tables: Tables) -> str:
    known = {one.key: one for one in findings(tables)}
    cells = "".join(
        f'<td title="{escape(known[key].headline)}">{escape(known[key].figure)}</td>'
        if key in known
        else f"<td>{UNDEFINED}</td>"
        for key in HEADS
    )
    return f'<tr><th scope="row">{escape(tables.name)}</th>{cells}</tr>'


def _strip(surveys: list[Tables], population: str) -> Chart:
    return Chart(
        key=f"compare-{population}",
        title=f"Mean cosine, {population}",
        caption="Average cosine over all pairs of positions, against depth.",
        series=tuple(_line(tables, i, population) for i, tables in enumerate(surveys)),
        x_label="depth (0 first layer … 1 last)",
        whole_x=False,
    )


def _line(tables: Tables, style: int, population: str) -> Series:
    rows = layer_rows(tables, population)
    layers = [number(row, "layer") for row in rows]
    first, span = (min(layers), max(layers) - min(layers) or 1.0) if layers else (0.0, 1.0)
    return Series(
        tables.name,
        style,
        x=tuple((layer - first) / span for layer in layers),
        y=tuple(number(row, "mean_cosine") for row in rows),
        places=tuple(f"{layer_name(row)} of {tables.name}" for row in rows),
    )
