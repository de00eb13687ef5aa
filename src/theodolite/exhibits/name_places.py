"""Where names stand: near their points, none on another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from theodolite.exhibits.style import BLACK, GREY
from theodolite.exhibits.text import plain

Array = NDArray[np.float64]
POINTS = 6.5  # the names' size
WIDE, HIGH, GAP = 0.62, 1.25, 3.5  # a character's box in font sizes; from a point to a name beside it, in points
RINGS, ANGLES = 14, 16
LONGEST = 18


def name_offsets(anchors: Array, sizes: Array, box: tuple[float, float]) -> Array:
    """Return how far each name's middle stands from its anchor. (names, 2), (names, 2) -> (names, 2), in points

    Names are placed one after the other, the most crowded first, each at the nearest of some places around its
    anchor, at a growing distance, that lies in the box (width, height), on no name placed before and on no anchor;
    on the fewest where there is no such place. O(names^2).
    """
    near = np.linalg.norm(anchors[:, None] - anchors[None], axis=2)
    crowded = np.sort(near, axis=1)[:, 1:4].mean(axis=1) if len(anchors) > 1 else np.zeros(len(anchors))
    taken = np.zeros((0, 4))
    offsets = np.zeros_like(anchors)
    for number in np.argsort(crowded, kind="stable"):
        places = _around(sizes[number])
        boxes = _boxes(anchors[number] + places, sizes[number])
        outside = (boxes[:, :2] < 0).any(axis=1) | (boxes[:, 2:] > np.array(box)).any(axis=1)
        on_names = _overlaps(boxes, taken).sum(axis=1)
        on_points = _overlaps(boxes, np.hstack([anchors - 1.5, anchors + 1.5])).sum(axis=1)
        best = int(np.argmin(1e4 * outside + 1e2 * on_names + on_points + 1e-3 * np.arange(len(places))))
        offsets[number] = places[best]
        taken = np.vstack([taken, boxes[best]])
    return offsets


def draw_names(ax: Axes, names: Sequence[str], at: Array, inches: tuple[float, float]) -> None:
    """Write names beside points (names, 2) of axes of about so many inches; call it when the limits are set."""
    short = [plain(name, LONGEST) for name in names]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    box = 72 * np.array(inches)
    anchors = (at - np.array([left, low])) / np.array([right - left, high - low]) * box
    sizes = np.array([[POINTS * WIDE * max(len(name), 1), POINTS * HIGH] for name in short])
    for name, xy, offset, size in zip(short, at, name_offsets(anchors, sizes, tuple(box)), sizes, strict=True):
        far = np.hypot(*np.maximum(np.abs(offset) - size / 2, 0)) > 2 * GAP
        ax.annotate(
            name,
            tuple(xy),
            xytext=tuple(offset),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=POINTS,
            color=BLACK,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 1} if far else None,
            path_effects=[withStroke(linewidth=1.8, foreground="white")],
            annotation_clip=True,
            zorder=7,
        )


def inside(ax: Axes, table: pd.DataFrame, x: str, y: str) -> NDArray[np.bool_]:
    """Say which rows lie within the limits."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    return (table[x].between(left, right) & table[y].between(low, high)).to_numpy(bool)


def _around(size: Array) -> Array:
    """Return places around a point for a name's middle: right and left of it first, then in rings."""
    angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
    beside = np.array([[1, 0], [-1, 0]]) * (size[0] / 2 + GAP)
    reach = size / 2 + GAP * (1 + np.arange(RINGS)[:, None, None]) * 0.8
    rings = reach * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.vstack([beside, rings.reshape(-1, 2)])


def _boxes(middles: Array, size: Array) -> Array:
    return np.hstack([middles - size / 2, middles + size / 2])


def _overlaps(boxes: Array, others: Array) -> NDArray[np.bool_]:
    """Say which boxes (left, low, right, high) lie on which others. (boxes, 4), (others, 4) -> (boxes, others)"""
    mine, theirs = boxes[:, None], others[None]
    apart: NDArray[np.bool_] = (mine[..., :2] >= theirs[..., 2:]) | (mine[..., 2:] <= theirs[..., :2])
    return np.logical_not(apart.any(axis=2))
