"""Stacked bars: parts of a whole, a bar a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.note import UNDEFINED, empty
from theodolite.exhibits.style import BLACK, BLUE, ORANGE, SKY

FILLS = ((BLUE, ""), (ORANGE, "////"), (SKY, "...."))
"""Colour and hatch, so that grey print tells the parts apart."""


def draw_stack(
    ax: Axes, profile: pd.DataFrame, parts: Mapping[str, str], *, error: str = "", why: str = UNDEFINED
) -> None:
    """Draw one bar a layer, the parts (column to label) from the bottom up.

    `error` is the column of half an interval about the first part, drawn as a thin line; `why` is
    written where there is no bar.
    """
    layers = profile["layer"].to_numpy(int)
    below = np.zeros(len(profile))
    for column, (colour, hatch) in zip(parts, FILLS, strict=False):
        values = profile[column].to_numpy(np.float64)
        ax.bar(layers, values, bottom=below, width=0.86, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        below = below + np.nan_to_num(values)
    if error:
        half, at = profile[error].to_numpy(np.float64), profile[next(iter(parts))].to_numpy(np.float64)
        told = np.isfinite(half) & np.isfinite(at)
        for colour, wide in (("white", 2.2), (BLACK, 0.8)):  # edged in white, so that it shows on every fill
            style: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": wide, "zorder": 4}
            ax.errorbar(layers[told], at[told], half[told], **style)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    ax.margins(x=0.02)
    if not below.any():
        empty(ax, why)


def draw_parts_legend(figure: FigureBase, labels: list[str]) -> None:
    """Draw the legend of the parts above all panels."""
    handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", lw=0) for colour, hatch in FILLS]
    figure.legend(handles[: len(labels)], labels, loc="outside upper center", ncols=len(labels))
