"""Principal components of vectors, with signs that do not depend on the machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]


class Projection(NamedTuple):
    """Vectors projected on their first principal components, and the share of variance of each."""

    points: Floats  # (vectors, components)
    shares: Floats  # (components,), NaN if all vectors are equal


@formula(
    "pca/shares",
    "trace.share",
    "groups.share",
    definition="Variance along a principal component over the total variance of the projected vectors.",
    cost="exact; one singular value decomposition of the vectors",
    citation="Hotelling 1933",
)
def principal_components(vectors: Floats, components: int = 3) -> Projection:
    """Project vectors on their principal components, centred at their mean. (vectors, dim)

    The coordinate of largest size of each component is positive. Components beyond the rank are 0.

    >>> found = principal_components(np.array([[0.0, 1.0], [0.0, 3.0]]), 2)
    >>> found.points.round(9).tolist(), found.shares.round(9).tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [1.0, 0.0])
    """
    centred = vectors - vectors.mean(0)
    axes, sizes = principal_axes(centred, components)
    total = np.square(centred).sum()
    shares = np.square(sizes[:components]) / total if total > 0 else np.full(components, np.nan)
    return Projection(centred @ axes.T, shares)


def principal_axes(vectors: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the first principal axes about the origin, and all singular values. (vectors, dim) -> (count, dim)

    Centre the vectors first for the axes of a principal component analysis. The coordinate of largest size of each
    axis is positive. Axes and singular values beyond the rank of the matrix are 0.

    >>> axes, sizes = principal_axes(np.array([[0.0, -2.0], [0.0, 0.0]]), 1)
    >>> axes.tolist(), abs(sizes).tolist()
    ([[0.0, 1.0]], [2.0, 0.0])
    """
    _, sizes, axes = np.linalg.svd(vectors, full_matrices=False)
    missing = max(0, count - len(axes))
    axes = np.vstack([axes[:count], np.zeros((missing, axes.shape[1]))])
    return orient_axes(axes), np.append(sizes, np.zeros(missing))


def orient_axes(axes: Floats) -> Floats:
    """Flip axes so that the coordinate of largest size of each is positive. (axes, dim)

    >>> orient_axes(np.array([[0.6, -0.8], [0.8, 0.6]])).tolist()
    [[-0.6, 0.8], [0.8, 0.6]]
    """
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)


def principal_coordinates(vectors: Tensor, *, centred: bool = True) -> Tensor:
    """Return (n, n) float64 coordinates with the same pairwise distances as the vectors (n, dim).

    They are computed from the products of the vectors with each other; equal vectors get equal coordinates.
    Centred, distances are most accurate; not centred, angles are preserved too. Cost: n^2 dim + n^3.

    >>> points = principal_coordinates(torch.tensor([[0.0, 3, 0, 0, 9], [4, 0, 0, 0, 9], [0, 3, 0, 0, 9]]))
    >>> round(float((points[0] - points[1]).norm()), 9), bool((points[0] == points[2]).all())
    (5.0, True)
    """
    known: dict[bytes, int] = {}
    of_row = [known.setdefault(row.tobytes(), len(known)) for row in vectors.numpy()]
    rows = np.unique(of_row, return_index=True)[1]
    x = vectors.numpy()[rows].astype(np.float64)
    if centred:
        x -= x.mean(axis=0)
    values, axes = np.linalg.eigh(x @ x.T)
    points = np.zeros((len(rows), len(vectors)))
    points[:, : len(rows)] = axes * np.sqrt(np.maximum(values, 0.0))
    return torch.from_numpy(points[of_row])


NOISE = 1e-12
"""Axes with a smaller fraction of the first axis's variance are rounding: their coordinates are 0."""


class Plane(NamedTuple):
    """Vectors on their first two principal components."""

    points: Floats  # (vectors, 2)
    share: float  # of the variance that the plane holds; NaN if all vectors are equal


def principal_plane(vectors: NDArray[np.floating]) -> Plane:
    """Project vectors on their first two principal components, faster than `principal_components`. (vectors, dim)

    Computes only two eigenvectors in float64: those of the covariance, or of the Gram matrix where there are fewer
    vectors than dimensions. The coordinate of largest size of each axis is positive.
    Cost: min(vectors, dim)^2 max(vectors, dim) products.

    >>> plane = principal_plane(np.array([[0.0, 1.0, 0.0], [0.0, 3.0, 0.0]]))
    >>> plane.points.round(9).tolist(), round(plane.share, 9)
    ([[-1.0, 0.0], [1.0, 0.0]], 1.0)
    """
    points = np.zeros((len(vectors), 2))
    if not len(vectors):
        return Plane(points, float("nan"))
    x = np.asarray(vectors, dtype=np.float64)
    x = x - x.mean(axis=0)
    total = float(np.square(x).sum())
    # The differences of equal vectors from their mean are rounding.
    if total <= (np.finfo(np.float64).eps * float(np.abs(vectors).max())) ** 2 * x.size:
        return Plane(points, float("nan"))
    axes = orient_axes(_first_two_axes(x))
    points[:, : len(axes)] = x @ axes.T
    return Plane(points, min(1.0, float(np.square(points).sum()) / total))


def _first_two_axes(x: Floats) -> Floats:
    """Return one or two orthonormal axes of centred vectors, by decreasing variance. (axes, dim)"""
    wide = x.shape[1] > x.shape[0]
    values, vectors = _find_two_largest(x @ x.T if wide else x.T @ x)
    kept = values > NOISE * values[0]
    axes = x.T @ (vectors[:, kept] / np.sqrt(values[kept])) if wide else vectors[:, kept]
    return np.asarray(axes.T, dtype=np.float64)


ITERATED_FROM = 128  # dimensions of a matrix


def _find_two_largest(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the two largest eigenvalues of a symmetric matrix, the largest first, and their vectors as columns.

    Large matrices are only multiplied by vectors (Lanczos' method), which takes a fraction of the time of a solver
    and, unlike it, does not block other threads.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    size = len(matrix)
    if size >= ITERATED_FROM:
        try:
            values, vectors = eigsh(matrix, k=2, which="LA", v0=np.random.default_rng(0).normal(size=size))
            order = np.argsort(values)[::-1]
            return values[order], vectors[:, order]
        except ArpackError:  # not converged
            pass
    values, vectors = eigh(matrix, subset_by_index=[max(0, size - 2), size - 1], check_finite=False)
    return values[::-1], vectors[:, ::-1]


def find_rotation(points: Floats, onto: Floats) -> Floats:
    """Return the rotation, with or without reflection, that moves points closest to `onto`. (n, 2) -> (2, 2)

    points @ find_rotation(points, onto) has the smallest sum of squared distances to `onto` (orthogonal
    Procrustes, Schönemann 1966).

    >>> square = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> find_rotation(square @ np.array([[0.0, 1.0], [-1.0, 0.0]]), square).round(9).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    from scipy.linalg import orthogonal_procrustes

    return np.asarray(orthogonal_procrustes(points, onto)[0], dtype=np.float64)
