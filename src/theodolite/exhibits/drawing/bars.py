"""Bar plots: histograms that are already counted, and stacked shares by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from theodolite.exhibits.drawing.axes import mark_empty
from theodolite.exhibits.drawing.style import BLACK, BLUE, ORANGE, SKY
from theodolite.studies.survey_data import UNDEFINED_EVERYWHERE


def draw_histogram(ax: Axes, bins: pd.DataFrame, *, colour: str = BLUE, **overrides: Any) -> None:
    """Draw bins (columns low, high, count) as filled bars."""
    width = (bins["high"] - bins["low"]).to_numpy(np.float64)
    style: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.4, "zorder": 2}
    ax.bar(
        bins["low"].to_numpy(np.float64),
        bins["count"].to_numpy(np.float64),
        width=width,
        color=colour,
        **style | overrides,
    )


def draw_histogram_outline(
    ax: Axes, bins: pd.DataFrame, *, colour: str, dash: Any = "-", label: str | None = None
) -> None:
    """Draw bins (columns low, high, count) as an outline, so that several histograms can share axes."""
    edges = np.append(bins["low"].to_numpy(np.float64), float(bins["high"].iloc[-1]))
    counts = bins["count"].to_numpy(np.float64)
    ax.stairs(counts, edges, color=colour, ls=dash, lw=1.0, label=label)
    ax.stairs(counts, edges, fill=True, color=colour, alpha=0.12)


FILLS = ((BLUE, ""), (ORANGE, "////"), (SKY, "...."))
"""Colour and hatch, so that the parts can be distinguished without colour."""


SHIFTS = (0.0, -0.2, 0.2)
"""Where the interval of each part is drawn across the bar: two share an edge."""


def _draw_intervals(
    ax: Axes, x: NDArray[np.float64], middle: NDArray[np.float64], half: NDArray[np.float64]
) -> None:
    known = np.isfinite(half) & np.isfinite(middle)
    for colour, wide in (("white", 2.2), (BLACK, 0.8)):  # with a white edge, so that it is visible on every fill
        style: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": wide, "zorder": 4}
        ax.errorbar(x[known], middle[known], half[known], **style)


def draw_stacked_bars(
    ax: Axes,
    profile: pd.DataFrame,
    parts: Mapping[str, str],
    *,
    error: str = "",
    reason: str = UNDEFINED_EVERYWHERE,
) -> None:
    """Draw one bar per layer that is stacked from `parts` (column to label), the first at the bottom.

    The columns `PART` + `error` have half the width of the interval of each part. It is drawn as a thin line at
    the edge that the part shares with the next one; of the last part, at the edge shared with the one before.
    `reason` is written in the panel if there is no bar.
    """
    layers = profile["layer"].to_numpy(int)
    below = np.zeros(len(profile))
    for number, (column, (colour, hatch)) in enumerate(zip(parts, FILLS, strict=False)):
        values = profile[column].to_numpy(np.float64)
        ax.bar(layers, values, bottom=below, width=0.86, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        if error:
            last = number == len(parts) - 1
            edge = below if last else below + values
            _draw_intervals(ax, layers + SHIFTS[number], edge, profile[f"{column}{error}"].to_numpy(np.float64))
        below = below + np.nan_to_num(values)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    ax.margins(x=0.02)
    if not below.any():
        mark_empty(ax, reason)


def draw_bar_legend(figure: FigureBase, labels: list[str]) -> None:
    """Draw a legend of the stacked parts above all panels."""
    handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", lw=0) for colour, hatch in FILLS]
    figure.legend(handles[: len(labels)], labels, loc="outside upper center", ncols=len(labels))
