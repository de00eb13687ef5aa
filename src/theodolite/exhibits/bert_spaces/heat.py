"""A table as an image: one square a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

COLOURS = "RdBu_r"
"""Blue below 0 and red above, white at 0: told apart by the colour-blind and in grey by what is white."""


def draw_heat(ax: Axes, table: pd.DataFrame, row: str, column: str, value: str, limit: float | None = None) -> Any:
    """Draw value at (row, column), the first row at the top; return the image, for a colour bar.

    Colours reach `limit` on both sides of 0; without one, the size that 1% of the numbers exceed.
    """
    wide = table.pivot(index=row, columns=column, values=value)
    numbers = wide.to_numpy(np.float64)
    known = np.abs(numbers[np.isfinite(numbers)])
    reach = limit or (float(np.quantile(known, 0.99)) if len(known) else 1.0) or 1.0
    rows, columns = wide.index.to_numpy(np.float64), wide.columns.to_numpy(np.float64)
    edges = (_first(columns), _last(columns), _last(rows), _first(rows))
    ax.set_facecolor("#D9D9D9")  # what is undefined
    image = ax.imshow(
        numbers, cmap=COLOURS, vmin=-reach, vmax=reach, extent=edges, aspect="auto", interpolation="nearest"
    )
    ax.set_xlabel(column)
    ax.set_ylabel(row)
    return image


def _step(places: np.ndarray[Any, Any]) -> float:
    return float(places[1] - places[0]) if len(places) > 1 else 1.0


def _first(places: np.ndarray[Any, Any]) -> float:
    return float(places[0]) - _step(places) / 2 if len(places) else 0.0


def _last(places: np.ndarray[Any, Any]) -> float:
    return float(places[-1]) + _step(places) / 2 if len(places) else 1.0
