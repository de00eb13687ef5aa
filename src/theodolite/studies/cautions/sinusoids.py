"""Sinusoidal encodings: positions made by hand, to hold learned ones against."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.sinusoid import sinusoidal, sinusoidal_as_printed

POSITIONS, DIM = 128, 512


def sinusoid_tables(positions: int = POSITIONS, dim: int = DIM) -> dict[str, pd.DataFrame]:
    """Return sinusoid (values) and sinusoid_cosines, by Vaswani's exponent and by the thesis'."""
    ways = {"": sinusoidal(positions, dim), "_2k": sinusoidal_as_printed(positions, dim)}
    position, coordinate = np.indices((positions, dim))
    values = {"position": position.ravel(), "coordinate": coordinate.ravel()}
    first, second = np.indices((positions, positions))
    cosines = {"position": first.ravel(), "other": second.ravel()}
    return {
        "sinusoid": pd.DataFrame(values | {f"value{name}": way.ravel() for name, way in ways.items()}),
        "sinusoid_cosines": pd.DataFrame(cosines | {f"cosine{name}": _cosines(way) for name, way in ways.items()}),
    }


def _cosines(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((units @ units.T).ravel())
