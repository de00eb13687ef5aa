"""Units as points, with the line fitted through those in the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from theodolite.exhibits.note import note
from theodolite.exhibits.style import BLACK, BLUE, GREY, PALE, VERMILLION
from theodolite.exhibits.text import number
from theodolite.exhibits.ticks import short_ticks

RASTER_FROM = 3000  # points; more of them in a vector file would choke a reader
FEW = 100  # points; pale ones of so few are drawn larger, or they would not be seen
REACH = 3.0  # how far the axes may go beyond the units in the fit, in their own range


def draw_scatter(
    ax: Axes,
    points: pd.DataFrame,
    x: str,
    y: str,
    fit: Mapping[str, Any],
    *,
    size: float = 5,
    interval: bool = True,
    among: str = "",
) -> None:
    """Draw y on x of all units, pale where they are not in the fit, the line, and its numbers above.

    `among` says which units a fit uses, should there be none.
    """
    used = points["used"].to_numpy(bool)
    special = points["special"].to_numpy(bool) & ~used
    few = len(points) < FEW
    _cloud(ax, points[~used & ~special], x, y, s=size * (2.0 if few else 0.6), c=PALE, alpha=0.9 if few else 0.6)
    _cloud(ax, points[used], x, y, s=size, c=BLUE, alpha=0.55)
    _cloud(
        ax, points[special], x, y, s=size * 4, marker="D", facecolors="none", edgecolors=VERMILLION, linewidths=0.9
    )
    draw_line(ax, points, x, fit, among)
    tell_outside(ax, frame(ax, points, x, y))
    short_ticks(ax)
    ax.set_title(told(fit, interval=interval), fontsize=7)


def tell_outside(ax: Axes, count: int) -> None:
    """Say in a corner how many points lie beyond the axes."""
    if count:
        behind = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
        place: dict[str, Any] = {"xy": (0.99, 0.99), "xycoords": "axes fraction", "ha": "right", "va": "top"}
        ax.annotate(f"{count:,} outside", fontsize=5.5, c=GREY, bbox=behind, zorder=6, **place)


def draw_line(ax: Axes, points: pd.DataFrame, x: str, fit: Mapping[str, Any], among: str = "") -> None:
    """Draw the fitted line over the range of the units in the fit; say why where there is none."""
    if np.isnan(fit["slope"]):
        note(ax, f"{fit['reason']}{among}", height=0.72)
        return
    ends = _finite(points.loc[points["used"], x])
    across = np.array([ends.min(), ends.max()])
    ax.plot(across, fit["intercept"] + fit["slope"] * across, c=BLACK, lw=1.3, zorder=4)


def told(fit: Mapping[str, Any], *, interval: bool = True) -> str:
    """Return slope and R2, and the slope's interval below."""
    if np.isnan(fit["slope"]):
        return "no fit"
    r2 = "–" if np.isnan(fit["r2"]) else f"{fit['r2']:.3f}"
    between = f"\n95%: {number(fit['slope_low'])} to {number(fit['slope_high'])}" if interval else ""
    return f"slope {number(fit['slope'])}, $R^2$ {r2}{between}"


def frame(ax: Axes, points: pd.DataFrame, x: str, y: str) -> int:
    """Set limits that show every unit in the fit and most others; return how many lie outside."""
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
    low = min(low, max(float(most[0]), low - REACH * reach))
    high = max(high, min(float(most[1]), high + REACH * reach))
    margin = 0.05 * max(high - low, reach)
    return low - margin, high + margin


def _cloud(ax: Axes, points: pd.DataFrame, x: str, y: str, **look: Any) -> None:
    if len(points):
        dots: dict[str, Any] = {
            "marker": "o",
            "linewidths": 0,
            "rasterized": len(points) > RASTER_FROM,
            "zorder": 2,
        }
        ax.scatter(points[x].to_numpy(), points[y].to_numpy(), **dots | look)


def _finite(values: pd.Series) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.to_numpy(np.float64)
    return array[np.isfinite(array)]
