"""Histograms that are already counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from theodolite.exhibits.style import BLUE


def draw_bins(ax: Axes, bins: pd.DataFrame, *, colour: str = BLUE, **look: Any) -> None:
    """Draw low, high, count as filled bars."""
    width = (bins["high"] - bins["low"]).to_numpy(np.float64)
    edges: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.4, "zorder": 2}
    ax.bar(
        bins["low"].to_numpy(np.float64),
        bins["count"].to_numpy(np.float64),
        width=width,
        color=colour,
        **edges | look,
    )


def draw_outline(ax: Axes, bins: pd.DataFrame, *, colour: str, dash: Any = "-", label: str | None = None) -> None:
    """Draw low, high, count as an outline, so that several can share axes."""
    edges = np.append(bins["low"].to_numpy(np.float64), float(bins["high"].iloc[-1]))
    counts = bins["count"].to_numpy(np.float64)
    ax.stairs(counts, edges, color=colour, ls=dash, lw=1.0, label=label)
    ax.stairs(counts, edges, fill=True, color=colour, alpha=0.12)
