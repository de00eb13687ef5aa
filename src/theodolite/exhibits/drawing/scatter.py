"""Scatter plots of units, coloured by frequency, with a fitted line; labels beside points that do not overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import FigureBase
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from theodolite.exhibits.drawing.axes import clean_label, shorten_ticks, write_note
from theodolite.exhibits.drawing.captions import LOG_N
from theodolite.exhibits.drawing.style import BLACK, BLUE, GREY, PALE, VERMILLION
from theodolite.text import format_fixed, format_scientific

RASTER_FROM = 3000  # points; more of them make a vector file slow to open
FEW_POINTS = 100  # points; below this number pale points are drawn larger, to be visible
REACH = 3.0  # how far the axes may extend beyond the units in the fit, as a multiple of their range
MANY = 0.05  # a larger share of the units is not left outside, however far they are
FREQUENCY_COLOURS = ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.92, 256)), "frequency")
"""Dark for rare units, light for frequent ones, without the yellow end, which is hard to see on white."""


def draw_scatter(
    ax: Axes,
    points: pd.DataFrame,
    x: str,
    y: str,
    fit: Mapping[str, Any],
    *,
    size: float = 5,
    interval: bool = True,
    filter_text: str = "",
    scale: Normalize | None = None,
) -> None:
    """Draw y on x for all units, the fitted line, and slope and R2 in the title. Units not in the fit are pale.

    If there is no fit, the panel states the reason; `filter_text` completes it with the units that a fit uses.
    With `scale`, units are coloured by log10 n on it, and frequent ones are drawn above rare ones.
    """
    used = points["used"].to_numpy(bool)
    special = points["special"].to_numpy(bool) & ~used
    few = len(points) < FEW_POINTS
    pale = {"s": size * (2.0 if few else 0.6), "alpha": 0.25 if scale else 0.9 if few else 0.6}
    _draw_points(ax, points[~used & ~special], x, y, scale, c=PALE, **pale)
    _draw_points(ax, points[used], x, y, scale, c=BLUE, s=size, alpha=0.8 if scale else 0.55)
    _draw_points(
        ax, points[special], x, y, s=size * 4, marker="D", facecolors="none", edgecolors=VERMILLION, linewidths=0.9
    )
    draw_fit_line(ax, points, x, fit, filter_text)
    write_outside_count(ax, set_limits(ax, points, x, y))
    shorten_ticks(ax)
    ax.set_title(format_fit(fit, interval=interval), fontsize=7)


def write_outside_count(ax: Axes, count: int) -> None:
    """Write the number of points outside the axes in a corner."""
    if count:
        behind = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
        place: dict[str, Any] = {"xy": (0.99, 0.99), "xycoords": "axes fraction", "ha": "right", "va": "top"}
        ax.annotate(f"{count:,} outside", fontsize=5.5, c=GREY, bbox=behind, zorder=6, **place)


def draw_fit_line(ax: Axes, points: pd.DataFrame, x: str, fit: Mapping[str, Any], filter_text: str = "") -> None:
    """Draw the fitted line over the range of the units in the fit, or write why there is none."""
    if np.isnan(fit["slope"]):
        write_note(ax, f"{fit['reason']}{filter_text}", height=0.72)
        return
    ends = _finite_values(points.loc[points["used"], x])
    across = np.array([ends.min(), ends.max()])
    ax.plot(across, fit["intercept"] + fit["slope"] * across, c=BLACK, lw=1.3, zorder=4)


def format_fit(fit: Mapping[str, Any], *, interval: bool = True) -> str:
    """Return slope and R2, with the interval of the slope on a second line."""
    if np.isnan(fit["slope"]):
        return "no fit"
    r2 = format_fixed(fit["r2"])
    between = (
        f"\n95%: {format_scientific(fit['slope_low'])} to {format_scientific(fit['slope_high'])}"
        if interval
        else ""
    )
    return f"slope {format_scientific(fit['slope'])}, $R^2$ {r2}{between}"


def set_limits(ax: Axes, points: pd.DataFrame, x: str, y: str) -> int:
    """Set limits that show every unit in the fit and most others. Return the number of units outside."""
    inside = np.ones(len(points), dtype=bool)
    used = points["used"].to_numpy(bool)
    for name, limit in ((x, ax.set_xlim), (y, ax.set_ylim)):
        values = points[name].to_numpy(np.float64)
        low, high = _limits(values[used & np.isfinite(values)], values[np.isfinite(values)])
        limit(low, high)
        inside &= ~((values < low) | (values > high))
    return int((~inside).sum())


def _limits(used: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    core = used if len(used) >= 3 else values
    low, high = float(core.min()), float(core.max())
    reach = (high - low) or 0.1 * abs(high) or 1.0
    most = np.quantile(values, [0.005, 0.995])
    below, above = low - REACH * reach, high + REACH * reach
    low = min(low, float(most[0]) if np.mean(values < below) > MANY else max(float(most[0]), below))
    high = max(high, float(most[1]) if np.mean(values > above) > MANY else min(float(most[1]), above))
    margin = 0.05 * max(high - low, reach)
    return low - margin, high + margin


def make_frequency_scale(tables: Sequence[pd.DataFrame]) -> Normalize:
    """Return one scale of log10 n for all tables, from 0 to the most frequent unit."""
    values = np.concatenate([[0.0], *(_finite_values(table["log10_n"]) for table in tables)])
    return Normalize(0.0, float(values.max()) or 1.0)


def draw_frequency_bar(figure: FigureBase, axes: Sequence[Axes], scale: Normalize, **overrides: Any) -> None:
    """Draw the colour bar of log10 n beside these panels."""
    style: dict[str, Any] = {"aspect": 40, "pad": 0.015}
    bar = figure.colorbar(ScalarMappable(scale, FREQUENCY_COLOURS), ax=list(axes), **style | overrides)
    bar.set_label(LOG_N)
    bar.outline.set_visible(False)


def _draw_points(
    ax: Axes, points: pd.DataFrame, x: str, y: str, scale: Normalize | None = None, **overrides: Any
) -> None:
    if len(points):
        if scale is not None:
            points = points.sort_values("log10_n", kind="stable")
            overrides |= {"c": points["log10_n"].to_numpy(), "cmap": FREQUENCY_COLOURS, "norm": scale}
        style: dict[str, Any] = {
            "marker": "o",
            "linewidths": 0,
            "rasterized": len(points) > RASTER_FROM,
            "zorder": 2,
        }
        ax.scatter(points[x].to_numpy(), points[y].to_numpy(), **style | overrides)


def _finite_values(values: pd.Series) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.to_numpy(np.float64)
    return array[np.isfinite(array)]


Array = NDArray[np.float64]
NAME_POINTS = 6.5  # the font size of names
NAME_WIDTH, NAME_HEIGHT, NAME_GAP = (
    0.62,
    1.25,
    3.5,
)  # width and height of a character in font sizes; gap between point and name
RINGS, ANGLES = 14, 16
LONGEST_NAME = 18
SAMPLES = 16  # points of a line between two of its marks that names avoid


def place_names(anchors: Array, sizes: Array, box: tuple[float, float], avoid: Array | None = None) -> Array:
    """Return the offset of each name's centre from its anchor. (names, 2), (names, 2) -> (names, 2), in points

    Names are placed one after the other, the most crowded first. Candidates are positions around the anchor at a
    growing distance. The nearest one is chosen that is inside the box (width, height) and overlaps no other name,
    no anchor and no point of `avoid` (points, 2), or the one with the fewest overlaps. O(names^2).
    """
    points = anchors if avoid is None else np.vstack([anchors, avoid])
    near = np.linalg.norm(anchors[:, None] - anchors[None], axis=2)
    crowded = np.sort(near, axis=1)[:, 1:4].mean(axis=1) if len(anchors) > 1 else np.zeros(len(anchors))
    taken = np.zeros((0, 4))
    offsets = np.zeros_like(anchors)
    for number in np.argsort(crowded, kind="stable"):
        places = _candidate_offsets(sizes[number])
        boxes = _boxes(anchors[number] + places, sizes[number])
        outside = (boxes[:, :2] < 0).any(axis=1) | (boxes[:, 2:] > np.array(box)).any(axis=1)
        on_names = _overlaps(boxes, taken).sum(axis=1)
        on_points = _overlaps(boxes, np.hstack([points - 1.5, points + 1.5])).sum(axis=1)
        best = int(np.argmin(1e4 * outside + 1e2 * on_names + on_points + 1e-3 * np.arange(len(places))))
        offsets[number] = places[best]
        taken = np.vstack([taken, boxes[best]])
    return offsets


def draw_names(
    ax: Axes, names: Sequence[str], at: Array, inches: tuple[float, float], avoid: Array | None = None
) -> None:
    """Write names beside the points `at` (names, 2) of axes of `inches`. Call it after the limits are set.

    `avoid` (points, 2) has other marks that names must not cover.
    """
    short = [clean_label(name, LONGEST_NAME) for name in names]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    box = 72 * np.array(inches)
    unit = box / np.array([right - left, high - low])
    anchors = (at - np.array([left, low])) * unit
    others = None if avoid is None else (avoid - np.array([left, low])) * unit
    sizes = np.array([[NAME_POINTS * NAME_WIDTH * max(len(name), 1), NAME_POINTS * NAME_HEIGHT] for name in short])
    for name, xy, offset, size in zip(
        short, at, place_names(anchors, sizes, tuple(box), others), sizes, strict=True
    ):
        far = np.hypot(*np.maximum(np.abs(offset) - size / 2, 0)) > 2 * NAME_GAP
        ax.annotate(
            name,
            tuple(xy),
            xytext=tuple(offset),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=NAME_POINTS,
            color=BLACK,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 1} if far else None,
            path_effects=[withStroke(linewidth=1.8, foreground="white")],
            annotation_clip=True,
            zorder=7,
        )


def sample_line(points: Array) -> Array:
    """Return points along the line that joins `points` (points, 2) in their order, for names to avoid."""
    if len(points) < 2:
        return points
    at = np.linspace(0, len(points) - 1, SAMPLES * (len(points) - 1) + 1)
    return np.stack([np.interp(at, np.arange(len(points)), column) for column in points.T], axis=1)


def find_inside(ax: Axes, table: pd.DataFrame, x: str, y: str) -> NDArray[np.bool_]:
    """Return which rows are within the limits of the axes."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    return (table[x].between(left, right) & table[y].between(low, high)).to_numpy(bool)


def _candidate_offsets(size: Array) -> Array:
    """Return candidate offsets of a name's centre from its point: right and left first, then in rings."""
    angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
    beside = np.array([[1, 0], [-1, 0]]) * (size[0] / 2 + NAME_GAP)
    reach = size / 2 + NAME_GAP * (1 + np.arange(RINGS)[:, None, None]) * 0.8
    rings = reach * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.vstack([beside, rings.reshape(-1, 2)])


def _boxes(middles: Array, size: Array) -> Array:
    return np.hstack([middles - size / 2, middles + size / 2])


def _overlaps(boxes: Array, others: Array) -> NDArray[np.bool_]:
    """Return which boxes (left, low, right, high) overlap. (boxes, 4), (others, 4) -> (boxes, others)"""
    mine, theirs = boxes[:, None], others[None]
    apart: NDArray[np.bool_] = (mine[..., :2] >= theirs[..., 2:]) | (mine[..., 2:] <= theirs[..., :2])
    return np.logical_not(apart.any(axis=2))
