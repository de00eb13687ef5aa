"""Small line charts: a chart as data, its axes, and its drawing as inline SVG.

Written by hand: a page has dozens of them, and matplotlib would need seconds and 20 kB for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from theodolite.escaping import escape_html
from theodolite.report.tables import (
    BOUNDED,
    Tables,
    layer_name,
    layer_rows,
    number,
    population_style,
    populations,
    undefined_reasons,
)
from theodolite.text import format_number, format_tick

Numbers = tuple[float, ...]
LOG_FROM = 50.0  # the highest value over the lowest, from which an axis is logarithmic


@dataclass(frozen=True)
class Line:
    """One line: a value at each x, NaN where undefined."""

    name: str
    style: int
    x: Numbers
    y: Numbers
    places: tuple[str, ...]

    def finite(self) -> list[float]:
        """Return the values that are drawn."""
        return [value for value in self.y if math.isfinite(value)]


@dataclass(frozen=True)
class Chart:
    """One panel: its title, its lines and its axes."""

    key: str
    title: str
    series: tuple[Line, ...]
    x_label: str = "layer"
    x_names: tuple[str, ...] = ()  # the labels at x = 0, 1, ... if these are not layers
    reason: str = ""
    column: str = ""  # of the layer table, where it is one

    @property
    def log(self) -> bool:
        """Whether the y axis is logarithmic: all values are positive and span a wide range."""
        values = [value for one in self.series for value in one.finite()]
        if self.column in BOUNDED:
            return False
        return len(values) > 0 and min(values) > 0 and max(values) > LOG_FROM * min(values)

    def empty(self) -> bool:
        """Return whether there is no value to draw."""
        return not any(one.finite() for one in self.series)

    def points(self) -> list[tuple[str, str, float, float]]:
        """Return (line, place, x, y) for every value that is drawn."""
        return [
            (one.name, place, x, y)
            for one in self.series
            for place, x, y in zip(one.places, one.x, one.y, strict=True)
            if math.isfinite(y)
        ]


TINY = 1e-300  # smaller values underflow when they are divided to find the ticks


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from [low, high] to [start, end]."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value on the page."""
        low, high = self._transform(self.low), self._transform(self.high)
        share = (self._transform(max(value, self.low) if self.log else value) - low) / ((high - low) or 1.0)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers within the axis, about `most` at most."""
        return _decades(self.low, self.high, most) if self.log else _round_steps(self.low, self.high, most)

    def _transform(self, value: float) -> float:
        return math.log10(value) if self.log else value


def fit_scale(values: Sequence[float], include: Sequence[float], start: float, end: float, log: bool) -> Scale:
    """Return a scale for the values that ends at round numbers; a linear one also covers those to include."""
    if log:
        above = [value for value in values if value > 0]
        return Scale(min(above) / 1.15, max(above) * 1.15, start, end, log=True)
    low, high = min((*values, *include)), max((*values, *include))
    if high - low <= TINY:
        margin = abs(low) / 2 if abs(low) > TINY else 0.5
        low, high = low - margin, high + margin
    step = _step(low, high, 6)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)


def whole_ticks(values: Sequence[float], most: int = 9) -> list[float]:
    """Return every k-th whole number from the lowest to the highest, with the smallest round k that fits.

    >>> whole_ticks([0, 33])
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    """
    low, high = math.ceil(min(values)), math.floor(max(values))
    step = next(k * 10**p for p in range(12) for k in (1, 2, 5) if (high - low) / (k * 10**p) < most)
    return [float(value) for value in range(-(-low // step) * step, high + 1, step)]


def _step(low: float, high: float, most: int) -> float:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= rough * (1 - 1e-9))


def _round_steps(low: float, high: float, most: int) -> list[float]:
    step = _step(low, high, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(len(powers) / most))
    kinds = (1, 3) if len(powers) <= 3 else (1,)
    marks = [k * 10.0**power for power in powers if power % every == 0 for k in kinds]
    return [value for value in marks if low <= value <= high]


WIDTH, HEIGHT = 380, 236
# With more points per line than this, markers are smaller.
CROWDED = 18
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 38

# The marker of each style, centred at (0, 0) and distinguishable without colour. The first three nest (a dot, a
# cross, a box), so that equal values of several populations stay visible.
SHAPES = (
    "M-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z",
    "M-4-4h8v8h-8z",
    "M-3-3L3 3M-3 3L3-3",
    "M0-4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 3.6L3.4-2.6H-3.4z",
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "M-2.8-2.8h5.6v5.6h-5.6z",
)


def draw_svg(chart: Chart, prefix: str) -> str:
    """Return the chart as an `<svg>` element whose ids start with `prefix`. CSS classes set the colours."""
    ident = f"{prefix}-{chart.key}"
    body = _draw_undefined(chart) if chart.empty() else _draw_panel(chart)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{ident}-t {ident}-d">'
        f'<title id="{ident}-t">{escape_html(chart.title)}</title>'
        f'<desc id="{ident}-d">{escape_html(describe_chart(chart))}</desc>{body}</svg>'
    )


def describe_chart(chart: Chart) -> str:
    """Return the range of each line as text, for screen readers."""
    spans = []
    for one in chart.series:
        seen = [value for value in one.y if math.isfinite(value)]
        span = (
            f"{format_number(min(seen))} to {format_number(max(seen))} at {len(seen)} points"
            if seen
            else "undefined"
        )
        spans.append(f"{one.name}: {span}")
    return "; ".join(spans)


def legend_marker(style: int) -> str:
    """Return the marker of a style for a legend."""
    return (
        f'<svg class="sign wide s{style % len(SHAPES)}" viewBox="0 0 28 12" aria-hidden="true">'
        '<path class="line" d="M0 6H28"/>'
        f'<path class="dot" transform="translate(14 6)" d="{_marker_path(style)}"/></svg>'
    )


def chart_scales(chart: Chart) -> tuple[Scale, Scale]:
    """Return the x and the y scale of a chart that is not empty."""
    xs = [x for one in chart.series for x in one.x]
    across = Scale(min(xs) - 0.6, max(xs) + 0.6, LEFT, WIDTH - RIGHT)
    values = [value for one in chart.series for value in one.finite()]
    return across, fit_scale(values, (0.0,), HEIGHT - BOTTOM, TOP, chart.log)


def _draw_panel(chart: Chart) -> str:
    across, up = chart_scales(chart)
    return _draw_frame(chart, across, up) + _draw_lines(chart, across, up)


def _draw_undefined(chart: Chart) -> str:
    words = [f'<text class="none" x="{WIDTH / 2:g}" y="{HEIGHT / 2 - 8:g}">undefined at every layer</text>']
    if chart.reason:
        short = chart.reason if len(chart.reason) <= 60 else chart.reason[:59] + "…"
        words.append(f'<text class="why" x="{WIDTH / 2:g}" y="{HEIGHT / 2 + 10:g}">{escape_html(short)}</text>')
    return "".join(words)


def _draw_frame(chart: Chart, across: Scale, up: Scale) -> str:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in up.ticks():
        y = up(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="ty" x="{LEFT - 6}" y="{y + 3.5:.1f}">{format_tick(value)}</text>')
    xs = [x for one in chart.series for x in one.x]
    for value in whole_ticks(xs):
        x = across(value)
        parts.append(f'<path class="tick" d="M{x:.1f} {floor}v4"/>')
        parts.append(f'<text class="tx" x="{x:.1f}" y="{floor + 15}">{_x_label(chart, value)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{right}"/>')
    label = chart.x_label + (" · log scale" if chart.log else "")
    parts.append(f'<text class="name" x="{(LEFT + right) / 2:g}" y="{HEIGHT - 6}">{escape_html(label)}</text>')
    return "".join(parts)


def _x_label(chart: Chart, value: float) -> str:
    return escape_html(chart.x_names[round(value)]) if chart.x_names else format_tick(value)


def _draw_lines(chart: Chart, across: Scale, up: Scale) -> str:
    parts = [_draw_line(one, across, up) for one in chart.series]
    # The first line has the smallest markers, so they are drawn last.
    parts += [_draw_markers(one, across, up) for one in reversed(chart.series)]
    return "".join(parts)


def _draw_markers(one: Line, across: Scale, up: Scale) -> str:
    small = " scale(.66)" if len(one.x) > CROWDED else ""
    dots = []
    for place, x, y in zip(one.places, one.x, one.y, strict=True):
        if math.isfinite(y):
            move = f"translate({across(x):.1f} {up(y):.1f}){small}"
            hint = escape_html(f"{place}, {one.name}: {format_number(y)}")
            dots.append(
                f'<path class="dot" transform="{move}" d="{_marker_path(one.style)}"><title>{hint}</title></path>'
            )
    return f'<g class="s{one.style % len(SHAPES)}">{"".join(dots)}</g>'


def _draw_line(one: Line, across: Scale, up: Scale) -> str:
    path = "".join(
        "M" + "L".join(f"{across(one.x[i]):.1f} {up(one.y[i]):.1f}" for i in run)
        for run in _finite_runs([math.isfinite(y) for y in one.y])
    )
    return f'<g class="s{one.style % len(SHAPES)}"><path class="line" d="{path}"/></g>'


def _finite_runs(flags: Sequence[bool]) -> Iterator[list[int]]:
    run: list[int] = []
    for index, flag in enumerate(flags):
        if flag:
            run.append(index)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _marker_path(style: int) -> str:
    return SHAPES[style % len(SHAPES)]


def layer_chart(tables: Tables, column: str, title: str) -> Chart:
    """Return one column of the layer table as a chart, with one line per population."""
    known = populations(tables)
    series = tuple(_population_line(tables, name, population_style(name, known), column) for name in known)
    reasons = [undefined_reasons(row).get(column, "") for name in known for row in layer_rows(tables, name)]
    why = next((reason for reason in reasons if reason), "")
    return Chart(
        column.replace("_", "-"), title, series, x_label=layer_axis_label(tables), reason=why, column=column
    )


def layer_axis_label(tables: Tables) -> str:
    """Return the label of the x axis, with the names of the first and the last layer."""
    rows = [row for name in populations(tables)[:1] for row in layer_rows(tables, name)]
    ends = [row for row in (rows[:1] + rows[-1:]) if isinstance(row.get("layer_name"), str)]
    names = list(dict.fromkeys(f"{number(row, 'layer'):g} {layer_name(row)}" for row in ends))
    return f"layer ({' … '.join(names)})" if names else "layer"


def _population_line(tables: Tables, population: str, style: int, column: str) -> Line:
    rows = layer_rows(tables, population)
    return Line(
        population,
        style,
        x=tuple(number(row, "layer") for row in rows),
        y=tuple(_finite_or_nan(number(row, column)) for row in rows),
        places=tuple(layer_name(row) for row in rows),
    )


def _finite_or_nan(value: float) -> float:
    return value if math.isfinite(value) else math.nan
