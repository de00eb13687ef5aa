"""The linking number: how many times one closed curve winds through another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]


@formula(
    "linking-number/gauss",
    "hopf.linking_number",
    definition="Gauss' integral (1/4 pi) of (a - b) . (da x db) / |a - b|^3 over two closed curves, by the "
    "midpoints of their edges: close to an integer, 0 if the curves can be separated.",
    cost="edges of one times edges of the other",
    citation="Gauss 1833",
)
def linking_number(one: Array, other: Array) -> float:
    """Return the linking number of two closed polygons in three dimensions. (n, 3), (m, 3)"""
    middles = [(curve + np.roll(curve, -1, axis=0)) / 2 for curve in (one, other)]
    edges = [np.roll(curve, -1, axis=0) - curve for curve in (one, other)]
    apart = middles[0][:, None] - middles[1][None]
    crossed = np.cross(edges[0][:, None], edges[1][None])
    parts = (apart * crossed).sum(axis=-1) / np.linalg.norm(apart, axis=-1) ** 3
    return float(parts.sum() / (4 * np.pi))
