"""Charts in their frames: a figure with its caption, and the legends that go with a group of them."""

from __future__ import annotations

from theodolite.report.chart import Chart
from theodolite.report.svg import draw, key_marker
from theodolite.report.text import escape


def figure(chart: Chart, prefix: str) -> str:
    """Return one chart with its title, its caption and, for a stack, its legend."""
    key = legend([(one.style, one.name) for one in chart.series], "stack") if chart.kind == "stack" else ""
    return (
        f"<figure><figcaption><b>{subscripts(chart.title)}</b> {subscripts(chart.caption)}</figcaption>"
        f"{draw(chart, prefix)}{key}</figure>"
    )


def legend(entries: list[tuple[int, str]], kind: str = "lines") -> str:
    """Return a row of signs and names."""
    items = "".join(
        f"<li>{key_marker(style, kind)}<span>{subscripts(name)}</span></li>" for style, name in entries
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def panels(charts: list[Chart], prefix: str) -> str:
    """Return charts side by side, as many as fit."""
    return f'<div class="panels">{"".join(figure(chart, prefix) for chart in charts)}</div>'


def subscripts(text: str) -> str:
    """Escape text, with V_W and V_B set as they are in the paper."""
    return escape(text).replace("V_W", "V<sub>W</sub>").replace("V_B", "V<sub>B</sub>")
