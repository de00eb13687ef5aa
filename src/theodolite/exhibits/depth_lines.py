"""A number on the layer's number or on its depth, one line a model, an encoder joined with its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from theodolite.exhibits.note import UNDEFINED, empty
from theodolite.exhibits.style import Look

FINAL_NORM = "final norm"
AXES = {
    "layer": "layer",
    "depth": "depth: 0 embeddings, 1 last block",
    "joined_depth": "depth: 0 embeddings, 1 last block",
}


def draw_line(ax: Axes, table: pd.DataFrame, column: str, line: Look, *, x: str = "layer", **style: Any) -> None:
    """Draw one table's column, its strip where it knows errors, and a thin line from an encoder to its decoder.

    The state after a final norm is an open marker: it is no block's output.
    """
    look: dict[str, Any] = {"c": line.colour, "marker": line.marker, "ls": line.dash, "ms": 3.2, "lw": 1.1} | style
    parts = [part for _, part in table.groupby("stack", sort=False)] if "stack" in table else [table]
    for before, after in pairwise(parts):
        ends = pd.concat([before.tail(1), after.head(1)])
        ax.plot(*_points(ends, x, column), c=look["c"], ls="-", lw=0.5, alpha=0.7)
    for part in parts:
        at, values = _points(part, x, column)
        ax.plot(at, values, **look)
        if "layer_name" in part:
            last = part["layer_name"].str.endswith(FINAL_NORM).to_numpy(bool)
            ax.plot(at[last], values[last], **look | {"ls": "", "mfc": "white"}, zorder=5)
        if f"{column}_low" in part:
            low, high = (part[f"{column}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
            ax.fill_between(at, low, high, color=look["c"], alpha=0.16, lw=0)


def finish(ax: Axes, tables: Sequence[pd.DataFrame], column: str, x: str) -> None:
    """Label the axis of layers, and say so where nothing is defined."""
    if x == "layer":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    ax.set_xlabel(AXES[x])
    ax.margins(x=0.04)
    if not any(np.isfinite(table[column].to_numpy(np.float64)).any() for table in tables):
        empty(ax, UNDEFINED)


def has_final_norm(tables: Sequence[pd.DataFrame]) -> bool:
    """Say whether any table ends with the state after a final norm."""
    return any(table["layer_name"].str.endswith(FINAL_NORM).any() for table in tables)


def has_stacks(tables: Sequence[pd.DataFrame]) -> bool:
    """Say whether any table is of an encoder with its decoder."""
    return any(table["stack"].nunique() > 1 for table in tables)


def has_errors(tables: Sequence[pd.DataFrame], column: str) -> bool:
    """Say whether any layer's number comes with an error."""
    return any(table[f"{column}_low"].notna().any() for table in tables)


def _points(table: pd.DataFrame, x: str, column: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return table[x].to_numpy(np.float64), table[column].to_numpy(np.float64)
