"""Charts of a store's report as inline SVG: scores of random pairs, and points with labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.escaping import escape_html
from theodolite.report.charts import Scale, fit_scale
from theodolite.text import format_number, format_tick

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 22, 44


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


def draw_points(points: Sequence[Point], x_label: str, y_label: str, title: str) -> str:
    """Return points with intervals on a logarithmic x axis; the best ones are joined and labelled."""
    drawn = [one for one in points if one.x > 0 and math.isfinite(one.y)]
    if not drawn:
        return ""
    across = fit_scale([one.x for one in drawn], (), LEFT, WIDTH - RIGHT - 60, log=True)
    ends = [end for one in drawn for end in (one.low, one.y, one.high) if math.isfinite(end)]
    up = fit_scale(ends, (), HEIGHT - BOTTOM, TOP, log=False)
    parts = [_draw_axes(across, up, x_label, y_label)]
    best = sorted((one for one in drawn if one.best), key=lambda one: one.x)
    steps = "L".join(f"{across(one.x):.1f} {up(one.y):.1f}" for one in best)
    parts.append(f'<g class="s0"><path class="line" d="M{steps}"/></g>' if len(best) > 1 else "")
    for one in drawn:
        x, y = across(one.x), up(one.y)
        exact = math.isnan(one.low)
        bar = "" if exact else f'<path class="line" d="M{x:.1f} {up(one.low):.1f}V{up(one.high):.1f}"/>'
        hint = escape_html(f"{one.label}: {format_number(one.y)} at {format_number(one.x)}")
        parts.append(
            f'<g class="s{0 if one.best else 1}">{bar}'
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.4"><title>{hint}</title></circle></g>'
        )
        if one.best:
            parts.append(f'<text x="{x + 7:.1f}" y="{y + 12:.1f}">{escape_html(one.label)}</text>')
    return _frame("".join(parts), title)


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
