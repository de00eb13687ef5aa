"""The plane of figure 1: principal axes of the chosen tokens' means and the origin, with the origin at 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FLAT = 1e-12  # an axis this much shorter than the first is rounding, and has no direction of its own


class Plane(NamedTuple):
    """Two directions, and the share of the fitted points' variance that lies along each."""

    axes: Array  # (2, dim), rows of length 1; 0 where there is no second direction
    share: Array  # (2,)

    def place(self, vectors: Array) -> Array:
        """Return where vectors fall in the plane, moved so that the origin is at 0. (rows, dim) -> (rows, 2)"""
        return vectors @ self.axes.T


def fit_plane(means: Array) -> Plane:
    """Fit principal axes to the means and the origin, each once. (tokens, dim) -> plane

    The points are centred for the fit. A point x falls at W (x - c) and the origin at W (0 - c); the difference,
    which is what is drawn, is W x. An axis points to where its largest coefficient is positive.

    >>> plane = fit_plane(np.array([[4.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, -1.0, 0.0]]))
    >>> plane.place(np.array([[3.0, 0.5, 7.0], [0.0, 0.0, 0.0]])).tolist()
    [[3.0, 0.5], [0.0, 0.0]]
    """
    points = np.vstack([means, np.zeros((1, means.shape[1]))])
    _, sizes, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    sizes, axes = np.append(sizes, [0.0, 0.0])[:2], np.vstack([axes, np.zeros((2, means.shape[1]))])[:2]
    axes[sizes <= FLAT * sizes[0]] = 0.0
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    total = float(((points - points.mean(axis=0)) ** 2).sum())
    return Plane(axes * np.where(largest < 0, -1.0, 1.0), sizes**2 / (total or np.nan))
