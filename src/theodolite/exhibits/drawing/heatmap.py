"""Heat maps: one coloured square per number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

COLOURS = "RdBu_r"
"""Blue below 0, white at 0, red above 0; safe for colour-blind readers."""


POSITIVE_COLOURS = "viridis"
"""For numbers that cannot be negative, from dark to bright."""


def draw_heat(
    ax: Axes,
    table: pd.DataFrame,
    row: str,
    column: str,
    value: str,
    limit: float | None = None,
    *,
    positive: bool = False,
) -> Any:
    """Draw the value at (row, column) with the first row at the top. Return the image, for a colour bar.

    The colour scale runs from -limit, or from 0 for `positive` numbers, to limit. The default limit is the 99th
    percentile of the absolute values.
    """
    wide = table.pivot(index=row, columns=column, values=value)
    numbers = wide.to_numpy(np.float64)
    known = np.abs(numbers[np.isfinite(numbers)])
    reach = limit or (float(np.quantile(known, 0.99)) if len(known) else 1.0) or 1.0
    rows, columns = wide.index.to_numpy(np.float64), wide.columns.to_numpy(np.float64)
    edges = (_first(columns), _last(columns), _last(rows), _first(rows))
    ax.set_facecolor("#D9D9D9")  # undefined values
    image = ax.imshow(
        numbers,
        cmap=POSITIVE_COLOURS if positive else COLOURS,
        vmin=0.0 if positive else -reach,
        vmax=reach,
        extent=edges,
        aspect="auto",
        interpolation="nearest",
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
