"""The plane that holds most of the variance of some vectors, and planes turned onto each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SIDES = 2
NOISE = 1e-12
"""Of the first axis's variance: an axis below that is rounding, and what it would show is 0."""


class Plane(NamedTuple):
    """Vectors on their first two principal components."""

    points: Array  # (vectors, 2)
    share: float  # of the variance that the plane holds; NaN where all vectors are one


def principal_plane(vectors: NDArray[np.floating]) -> Plane:
    """Project vectors on their two principal components, centred at their mean. (vectors, dim)

    Exact: the eigenvectors of the covariance, or of the vectors' products with each other where there are fewer
    vectors than coordinates, in float64. Each axis points to where its largest coordinate is positive.
    Cost: min(vectors, dim)^2 max(vectors, dim) products.

    >>> plane = principal_plane(np.array([[0.0, 1.0, 0.0], [0.0, 3.0, 0.0]]))
    >>> plane.points.round(9).tolist(), round(plane.share, 9)
    ([[-1.0, 0.0], [1.0, 0.0]], 1.0)
    """
    points = np.zeros((len(vectors), SIDES))
    if not len(vectors):
        return Plane(points, float("nan"))
    x = np.asarray(vectors, dtype=np.float64)
    x = x - x.mean(axis=0)
    total = float(np.square(x).sum())
    # What is left of equal vectors is the rounding of their mean, which no plane shows.
    if total <= (np.finfo(np.float64).eps * float(np.abs(vectors).max())) ** 2 * x.size:
        return Plane(points, float("nan"))
    axes = _axes(x)
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    points[:, : axes.shape[1]] = x @ axes
    return Plane(points, min(1.0, float(np.square(points).sum()) / total))


def _axes(x: Array) -> Array:
    """Return one or two orthonormal axes of centred vectors, the first the longest. (dim, axes)"""
    from scipy.linalg import eigh

    wide = x.shape[1] > x.shape[0]
    products = x @ x.T if wide else x.T @ x
    size = len(products)
    values, found = eigh(products, subset_by_index=[max(0, size - SIDES), size - 1], check_finite=False)
    values, found = values[::-1], found[:, ::-1]
    kept = values > NOISE * values[0]
    axes = x.T @ (found[:, kept] / np.sqrt(values[kept])) if wide else found[:, kept]
    return np.asarray(axes, dtype=np.float64)


def turn(points: Array, onto: Array) -> Array:
    """Return the rotation, or rotation and reflection, that brings points nearest to others. (n, 2) -> (2, 2)

    points @ turn(points, onto) has the least sum of squared distances to `onto` (orthogonal Procrustes,
    Schönemann 1966): U V^T, where points^T onto = U S V^T.

    >>> square = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> turn(square @ np.array([[0.0, 1.0], [-1.0, 0.0]]), square).round(9).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    left, _, right = np.linalg.svd(points.T @ onto)
    return np.asarray(left @ right, dtype=np.float64)
