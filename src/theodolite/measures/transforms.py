"""Transforms of vectors before they are measured: centre, standardise, remove directions, whiten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.measures.formula import formula

Array = NDArray[np.float64]
FLOOR = 1e-6
"""Variances below this fraction of the largest are rounding, since products are float32 within a batch."""


@dataclass(frozen=True)
class Transform:
    """x -> (x - shift) A, with the second moments of the transformed vectors.

    spectrum        (dim,) eigenvalues of the covariance after it, largest first
    second, axes    (dim,) and (dim, dim): eigenvalues and eigenvectors of E x x^T after it, in the same order
    kept, removed   number of directions above rounding after it, and number of leading directions that it removes
    """

    name: str
    shift: Array
    spectrum: Array
    second: Array
    axes: Array
    kept: int
    matrix: Array | None = None  # (dim, dim); None for the identity
    removed: int = 0

    def __call__(self, vectors: NDArray[np.floating]) -> Array:
        """Return the vectors transformed, in float64. (vectors, dim)"""
        moved = vectors.astype(np.float64) - self.shift
        return moved if self.matrix is None else np.asarray(moved @ self.matrix)


@formula(
    "what-if/transforms",
    "what-if.transform",
    "what-if.removed",
    "what-if.kept",
    definition="as-is; centred: x - mean; standardised: that, each coordinate over its s.d.; without-top-k: "
    "centred, without its first k principal components; whitened: centred, each principal component over its "
    "s.d., without those of less than 1e-6 of the largest variance. Mean and covariance are of all positions; "
    "kept is the number of directions above that 1e-6, removed is k.",
    cost="exact; three eigenproblems per layer",
    citation="Mu and Viswanath 2018, All-but-the-Top; Timkey and van Schijndel 2021; Su et al. 2021, Whitening",
)
def transforms(mean: Array, covariance: Array, remove: Sequence[int] = (1,)) -> Iterator[Transform]:
    """Yield every transform, given mean (dim,) and covariance (dim, dim); `remove` lists the values of k.

    >>> [t.name for t in transforms(np.zeros(2), np.diag([4.0, 1.0]))]
    ['as-is', 'centred', 'standardised', 'without-top-1', 'whitened']
    >>> [t.spectrum.tolist() for t in transforms(np.zeros(2), np.diag([4.0, 1.0]))][2:]
    [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    dim = len(mean)
    for k in remove:
        if not 0 < k < dim:
            raise InputError(
                f"--remove requires a number of directions from 1 to {dim - 1} for {dim} coordinates (got {k})."
            )
    values, axes = _eigendecompose(covariance)
    rank = int((values > FLOOR * values[0]).sum())
    yield Transform("as-is", np.zeros(dim), values, *_eigendecompose(covariance + np.outer(mean, mean)), rank)
    yield Transform("centred", mean, values, values, axes, rank)
    yield _standardise(mean, covariance)
    for k in remove:
        left, top = np.concatenate([values[k:], np.zeros(k)]), axes[:, :k]
        matrix, turned = np.eye(dim) - top @ top.T, np.roll(axes, -k, axis=1)
        yield Transform(f"without-top-{k}", mean, left, left, turned, max(rank - k, 0), matrix, k)
    ones = np.concatenate([np.ones(rank), np.zeros(dim - rank)])
    yield Transform("whitened", mean, ones, ones, axes, rank, _inverse_root(values, axes, rank))


def _eigendecompose(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues, largest first, with negative rounding set to 0, and eigenvectors. (dim,), (dim, dim)"""
    values, axes = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), axes[:, ::-1]


def _standardise(mean: Array, covariance: Array) -> Transform:
    v = np.diag(covariance)
    varies = v > FLOOR * max(v.max(), 0.0)
    scale = np.where(varies, 1 / np.sqrt(np.where(varies, v, 1.0)), 0.0)
    spectrum, axes = _eigendecompose(covariance * np.outer(scale, scale))
    kept = int((spectrum > FLOOR * spectrum[0]).sum())
    return Transform("standardised", mean, spectrum, spectrum, axes, kept, np.diag(scale))


def _inverse_root(values: Array, axes: Array, rank: int) -> Array:
    """Return the symmetric inverse square root of the covariance within its first `rank` axes. (dim, dim)"""
    return np.asarray((axes[:, :rank] / np.sqrt(values[:rank])) @ axes[:, :rank].T)
