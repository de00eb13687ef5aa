"""Charts as inline SVG: no colour is written here, only classes, so that the page's theme paints them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from theodolite.report.chart import Chart, Series
from theodolite.report.numbers import show, tick
from theodolite.report.scale import Scale, fit, whole_ticks
from theodolite.report.text import escape

WIDTH, HEIGHT = 380, 236
# More points a line than this, and signs are drawn smaller.
CROWDED = 18
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 38

# One shape a style, about (0, 0), told apart without colour. The first three nest (a dot in a cross in a box),
# so that populations that agree are all still seen.
SHAPES = (
    "M-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z",
    "M-4-4h8v8h-8z",
    "M-3-3L3 3M-3 3L3-3",
    "M0-4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 3.6L3.4-2.6H-3.4z",
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "M-2.8-2.8h5.6v5.6h-5.6z",
)


def draw(chart: Chart, prefix: str) -> str:
    """Return the chart as an `<svg>` element; `prefix` keeps its ids apart from those of other charts."""
    ident = f"{prefix}-{chart.key}"
    body = _nothing(chart) if chart.empty() else _panel(chart)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{ident}-t {ident}-d">'
        f'<title id="{ident}-t">{escape(chart.title)}</title>'
        f'<desc id="{ident}-d">{escape(describe(chart))}</desc>{body}</svg>'
    )


def describe(chart: Chart) -> str:
    """Say in words what each series spans, for those who cannot see it."""
    spans = []
    for one in chart.series:
        seen = [value for value in one.y if math.isfinite(value)]
        span = f"{show(min(seen))} to {show(max(seen))} at {len(seen)} points" if seen else "undefined"
        spans.append(f"{one.name}: {span}")
    return "; ".join(spans)


def key_marker(style: int) -> str:
    """Return the small sign that stands for a style."""
    return (
        f'<svg class="sign wide s{style % len(SHAPES)}" viewBox="0 0 28 12" aria-hidden="true">'
        '<path class="line" d="M0 6H28"/>'
        f'<path class="dot" transform="translate(14 6)" d="{_shape(style)}"/></svg>'
    )


def axes(chart: Chart) -> tuple[Scale, Scale]:
    """Return the x and the y axis of a chart that has something to draw."""
    xs = [x for one in chart.series for x in one.x]
    across = Scale(min(xs) - 0.6, max(xs) + 0.6, LEFT, WIDTH - RIGHT)
    values = [value for one in chart.series for value in one.finite()]
    return across, fit(values, (0.0,), HEIGHT - BOTTOM, TOP, chart.log)


def _panel(chart: Chart) -> str:
    across, up = axes(chart)
    return _frame(chart, across, up) + _lines(chart, across, up)


def _nothing(chart: Chart) -> str:
    words = [f'<text class="none" x="{WIDTH / 2:g}" y="{HEIGHT / 2 - 8:g}">undefined at every layer</text>']
    if chart.reason:
        short = chart.reason if len(chart.reason) <= 60 else chart.reason[:59] + "…"
        words.append(f'<text class="why" x="{WIDTH / 2:g}" y="{HEIGHT / 2 + 10:g}">{escape(short)}</text>')
    return "".join(words)


def _frame(chart: Chart, across: Scale, up: Scale) -> str:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in up.ticks():
        y = up(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="ty" x="{LEFT - 6}" y="{y + 3.5:.1f}">{tick(value)}</text>')
    xs = [x for one in chart.series for x in one.x]
    for value in whole_ticks(xs):
        x = across(value)
        parts.append(f'<path class="tick" d="M{x:.1f} {floor}v4"/>')
        parts.append(f'<text class="tx" x="{x:.1f}" y="{floor + 15}">{_x_name(chart, value)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{right}"/>')
    label = chart.x_label + (" · log scale" if chart.log else "")
    parts.append(f'<text class="name" x="{(LEFT + right) / 2:g}" y="{HEIGHT - 6}">{escape(label)}</text>')
    return "".join(parts)


def _x_name(chart: Chart, value: float) -> str:
    return escape(chart.x_names[round(value)]) if chart.x_names else tick(value)


def _lines(chart: Chart, across: Scale, up: Scale) -> str:
    parts = [_line(one, across, up) for one in chart.series]
    # The first series has the smallest sign, so its signs lie on top though its line lies below.
    parts += [_dots(one, across, up) for one in reversed(chart.series)]
    return "".join(parts)


def _dots(one: Series, across: Scale, up: Scale) -> str:
    small = " scale(.66)" if len(one.x) > CROWDED else ""
    dots = []
    for place, x, y in zip(one.places, one.x, one.y, strict=True):
        if math.isfinite(y):
            move = f"translate({across(x):.1f} {up(y):.1f}){small}"
            hint = escape(f"{place}, {one.name}: {show(y)}")
            dots.append(
                f'<path class="dot" transform="{move}" d="{_shape(one.style)}"><title>{hint}</title></path>'
            )
    return f'<g class="s{one.style % len(SHAPES)}">{"".join(dots)}</g>'


def _line(one: Series, across: Scale, up: Scale) -> str:
    path = "".join(
        "M" + "L".join(f"{across(one.x[i]):.1f} {up(one.y[i]):.1f}" for i in run)
        for run in _runs([math.isfinite(y) for y in one.y])
    )
    return f'<g class="s{one.style % len(SHAPES)}"><path class="line" d="{path}"/></g>'


def _runs(flags: Sequence[bool]) -> Iterator[list[int]]:
    run: list[int] = []
    for index, flag in enumerate(flags):
        if flag:
            run.append(index)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _shape(style: int) -> str:
    return SHAPES[style % len(SHAPES)]
