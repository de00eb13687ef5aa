"""Charts of a store's report as inline SVG: scores of random pairs, and points with labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.escaping import escape_html
from theodolite.report.charts import Scale, fit_scale
from theodolite.text import format_number, format_tick

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 34, 44


@dataclass(frozen=True)
class Curve:
    """A curve of densities over scores, and the score marked in it, if any."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    mark: float | None = None


@dataclass(frozen=True)
class Point:
    """A point with its label and a 95% interval of y; NaN: y is exact."""

    label: str
    x: float
    y: float
    low: float
    high: float
    best: bool = False
    series: int = 0


def draw_curves(curves: Sequence[Curve], x_label: str, title: str) -> str:
    """Return densities as areas, each with a vertical line at its mark."""
    seen = [[x for x, y in zip(one.x, one.y, strict=True) if y > 1e-3 * max(one.y, default=0)] for one in curves]
    marks = [one.mark for one in curves if one.mark is not None]
    xs = [x for part in seen for x in part] + marks
    if not xs:
        return ""
    across = fit_scale(xs, (), LEFT, WIDTH - RIGHT, log=False)
    up = fit_scale([y for one in curves for y in one.y], (0.0,), HEIGHT - BOTTOM, TOP, log=False)
    parts = [_draw_axes(across, up, x_label, "density of pairs")]
    for number, one in enumerate(curves):
        inside = [(x, y) for x, y in zip(one.x, one.y, strict=True) if across.low <= x <= across.high]
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in inside)
        floor = HEIGHT - BOTTOM
        area = f"M{across(inside[0][0]):.1f} {floor}L{path}L{across(inside[-1][0]):.1f} {floor}z"
        parts.append(f'<g class="s{number}"><path class="area" d="{area}"/><path class="line" d="M{path}"/></g>')
        if one.mark is not None:
            x = across(one.mark)
            anchor = "end" if x > WIDTH * 0.8 else "start"
            shift = -6 if anchor == "end" else 6
            parts.append(
                f'<g class="s{number}"><path class="line" d="M{x:.1f} {TOP}V{floor}"/></g>'
                f'<text x="{x + shift:.1f}" y="{TOP + 10 + 16 * number}" style="text-anchor:{anchor}">'
                f"match {format_number(one.mark, 3)}</text>"
            )
    return _frame("".join(parts), title)


def draw_lines(lines: Sequence[Curve], x_label: str, y_label: str, title: str) -> str:
    """Return lines through points, each with a dot; numbers that are not finite are left out."""
    drawn = [[(x, y) for x, y in zip(one.x, one.y, strict=True) if math.isfinite(y)] for one in lines]
    if not any(drawn):
        return ""
    across = fit_scale([x for one in drawn for x, _ in one], (), LEFT, WIDTH - RIGHT, log=False)
    up = fit_scale([y for one in drawn for _, y in one], (), HEIGHT - BOTTOM, TOP, log=False)
    parts = [_draw_axes(across, up, x_label, y_label)]
    for number, points in enumerate(drawn):
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
        dots = "".join(
            f'<circle class="dot" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3.4">'
            f"<title>{escape_html(lines[number].name)}, {x:g}: {format_number(y)}</title></circle>"
            for x, y in points
        )
        parts.append(f'<g class="s{number}"><path class="line" d="M{path}"/>{dots}</g>' if points else "")
    return _frame("".join(parts), title)


def draw_points(points: Sequence[Point], x_label: str, y_label: str, title: str) -> str:
    """Return points with intervals on a logarithmic x axis; the best ones of each series are joined.

    Labels are drawn where there is room for them, first those of the best points; narrow screens show only these.
    """
    drawn = [one for one in points if one.x > 0 and math.isfinite(one.y)]
    if not drawn:
        return ""
    across = fit_scale([one.x for one in drawn], (), LEFT, WIDTH - RIGHT - 60, log=True)
    ends = [end for one in drawn for end in (one.low, one.y, one.high) if math.isfinite(end)]
    up = fit_scale(ends, (), HEIGHT - BOTTOM, TOP, log=False)
    parts = [_draw_axes(across, up, x_label, y_label)]
    for series in sorted({one.series for one in drawn}):
        best = sorted((one for one in drawn if one.best and one.series == series), key=lambda one: one.x)
        steps = "L".join(f"{across(one.x):.1f} {up(one.y):.1f}" for one in best)
        parts.append(f'<g class="s{series}"><path class="line" d="M{steps}"/></g>' if len(best) > 1 else "")
    for one in drawn:
        x, y = across(one.x), up(one.y)
        ends = [end for end in (one.low, one.high) if math.isfinite(end)]
        bar = f'<path class="line" d="M{x:.1f} {up(ends[0]):.1f}V{up(ends[1]):.1f}"/>' if ends else ""
        hint = escape_html(f"{one.label}: {format_number(one.y)} at {format_number(one.x)}")
        parts.append(
            f'<g class="s{one.series}">{bar}'
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.4"><title>{hint}</title></circle></g>'
        )
    taken = [(across(one.x) - 4, up(one.y) - 4, across(one.x) + 4, up(one.y) + 4) for one in drawn]
    for one in sorted(drawn, key=lambda one: not one.best):
        if (place := _find_room(across(one.x), up(one.y), one.label, taken)) is None:
            continue
        taken.append(place)
        kind = "label" if one.best else "minor"
        parts.append(
            f'<text class="{kind}" x="{place[0]:.1f}" y="{place[3] - 3:.1f}">{escape_html(one.label)}</text>'
        )
    return _frame("".join(parts), title)


Box = tuple[float, float, float, float]


def _find_room(x: float, y: float, label: str, taken: Sequence[Box]) -> Box | None:
    """Return the box (left, top, right, bottom) of a label beside a point that covers nothing, or None."""
    width = 6.6 * len(label)
    for left, bottom in (
        (x + 6, y + 15),
        (x + 6, y - 1),
        (x + 6, y + 7),
        (x - 6 - width, y + 15),
        (x - 6 - width, y + 7),
    ):
        box = (left, bottom - 13, left + width, bottom)
        inside = left >= LEFT and box[2] <= WIDTH and box[1] >= TOP - 14 and bottom <= HEIGHT - BOTTOM
        if inside and not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
        ):
            return box
    return None


def _draw_axes(across: Scale, up: Scale, x_label: str, y_label: str) -> str:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in up.ticks():
        y = up(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="ty" x="{LEFT - 6}" y="{y + 3.5:.1f}">{format_tick(value)}</text>')
    for value in across.ticks(8):
        x = across(value)
        parts.append(f'<path class="tick" d="M{x:.1f} {floor}v4"/>')
        parts.append(f'<text class="tx" x="{x:.1f}" y="{floor + 16}">{format_tick(value)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{right}"/>')
    parts.append(f'<text class="name" x="{(LEFT + right) / 2:g}" y="{HEIGHT - 8}">{escape_html(x_label)}</text>')
    parts.append(f'<text x="4" y="12">{escape_html(y_label)}</text>')
    return "".join(parts)


def _frame(body: str, title: str) -> str:
    label = escape_html(title)
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{body}</svg>'
