"""How long the vectors of an array are, how far they spread, and how similar their directions are."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.measures import contextuality, cosine
from theodolite.measures.arrays.result import (
    Result,
    as_codes,
    as_result,
    as_vectors,
    blocks,
    check_integer,
    clustered_error,
    make_result,
    mean_vector,
    number,
)
from theodolite.measures.cosine import NO_DIRECTION, directions
from theodolite.measures.decomposition import UnitMoments, frequent, unit_moments
from theodolite.measures.unit_fits import bootstrap_errors, coefficient_of_variation, fit_line

FIT, CV = "tradeoff/v-on-m", "q-cv/frequent"


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Q = M + V and V = V_W + V_B; the last two are None without units."""

    q: Result
    """Mean squared norm."""
    m: Result
    """Squared norm of the mean."""
    v: Result
    """Variance: the mean squared distance to the mean."""
    v_within: Result | None = None
    """Variance within units: the mean squared distance to the mean of the unit."""
    v_between: Result | None = None
    """Variance between units: the mean squared distance of a unit's mean to the mean."""


def decompose(x: Any, units: Any = None, *, documents: Any = None) -> Decomposition:
    """Split the mean squared norm Q of vectors into M + V, and with `units` V into V_W + V_B.

    x: (vectors, dim). units: one label per vector, such as the token. documents: one label per vector; standard
    errors then treat documents as independent, otherwise vectors.

    >>> parts = decompose(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [0.0, 4.0]]), units=list("aabb"))
    >>> [part.value for part in (parts.q, parts.m, parts.v, parts.v_within, parts.v_between)]
    [7.5, 3.25, 4.25, 1.0, 3.25]
    """
    vectors = as_vectors(x)
    n, clusters = len(vectors), _documents(documents, vectors)
    mean = mean_vector(vectors)
    squares, from_mean, along = (torch.empty(n, dtype=torch.float64, device=vectors.device) for _ in range(3))
    for rows, block in blocks(vectors):
        squares[rows] = block.square().sum(1)
        from_mean[rows] = (block - mean).square().sum(1)
        along[rows] = block @ mean

    def result(influence: Tensor, value: float, kind: str = "qmv/all") -> Result:
        return make_result(value, clustered_error(influence, clusters), n, kind, "the squares overflow float64")

    q, m, v = float(squares.mean()), float(mean @ mean), float(from_mean.mean())
    parts = (result(squares, q), result(2 * along, m), result(from_mean, v))
    if units is None:
        return Decomposition(*parts)
    codes = as_codes(units, vectors, "units")
    means = _unit_sums(vectors, codes, mean)[1]
    within = torch.empty_like(squares)
    for rows, block in blocks(vectors, mean):
        within[rows] = (block - means[codes[rows]]).square().sum(1)
    between = float(means.square().sum(1)[codes].mean())
    return Decomposition(*parts, result(within, float(within.mean())), result(from_mean - within, between))


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The line of V on M over units, and the coefficient of variation of Q = M + V."""

    slope: Result
    r2: Result
    q_cv: Result
    units: int
    """Number of units that pass the filter."""

    def __float__(self) -> float:
        return self.slope.value


def tradeoff(x: Any, units: Any) -> Tradeoff:
    """Fit V(X_t) on M(X_t) over the units t that occur 10 to 100,000 times, as the figures of the paper do.

    x: (vectors, dim). units: one label per vector. Standard errors are a bootstrap over units. The slope is -1
    where every unit has the same mean squared norm.
    """
    vectors = as_vectors(x)
    codes = as_codes(units, vectors, "units")
    moments, n = _moments_by_unit(vectors, codes)
    kept = frequent(n)
    used = int(kept.sum())
    reason = f"{used} units occur 10 to 100,000 times, and a fit needs three"
    if used < 3:
        none, no_cv = (make_result(nan, nan, used, each, reason) for each in (FIT, CV))
        return Tradeoff(none, none, no_cv, used)
    m, v = moments.m[kept], moments.v[kept]
    line, errors = fit_line(m, v), bootstrap_errors(m, v)
    cv = coefficient_of_variation(moments.q[kept])
    return Tradeoff(
        make_result(line.slope, errors["tradeoff_slope_se"], used, FIT, "M is the same for all units"),
        make_result(line.r2, errors["tradeoff_r2_se"], used, FIT, "M or V is the same for all units"),
        make_result(cv, errors["q_cv_se"], used, CV, "all vectors are 0"),
        used,
    )


def mean_cosine(x: Any, *, documents: Any = None) -> Result:
    """Return the mean cosine over all pairs of vectors, exactly. Zero vectors have no direction and are skipped.

    x: (vectors, dim). documents: one label per vector; the standard error then treats documents as independent.

    >>> mean_cosine(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])).value
    0.3333333333333333
    """
    vectors = as_vectors(x)
    clusters = _documents(documents, vectors)
    kept = torch.cat([(block != 0).any(dim=1) for _, block in blocks(vectors)])
    if not bool(kept.all()):
        vectors = vectors[kept]
        clusters = None if clusters is None else number(clusters[kept])
    n = len(vectors)
    if n < 2:
        return make_result(nan, nan, n, "mean-cosine/all-pairs", NO_DIRECTION)
    total = torch.zeros(vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for _, block in blocks(vectors):
        total += directions(block).sum(0)
    with_others = torch.empty(n, dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors):
        with_others[rows] = (directions(block) @ total - 1) / (n - 1)
    value = cosine.mean_cosine(n, total.cpu().numpy())
    return make_result(value, clustered_error(2 * with_others, clusters), n, "mean-cosine/all-pairs", NO_DIRECTION)


def self_similarity(x: Any, units: Any, *, min_count: int = contextuality.MIN_OCCURRENCES) -> Result:
    """Return the mean cosine between occurrences of a unit, averaged over units with at least `min_count` of them.

    x: (vectors, dim). units: one label per vector. The standard error is over units.

    >>> x = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> self_similarity(x, list("aabb"), min_count=2).value
    0.0
    """
    vectors = as_vectors(x)
    codes = as_codes(units, vectors, "units")
    moving = (vectors != 0).any(dim=1)
    vectors, codes = vectors[moving], codes[moving]
    size = int(codes.max()) + 1 if len(codes) else 0
    total = torch.zeros(size, vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors):
        total.index_add_(0, codes[rows], directions(block))
    n = torch.bincount(codes, minlength=size).cpu().numpy()
    each = contextuality.self_similarity(n, total.cpu().numpy())
    mean, error, used = contextuality.mean_over_units(each, n >= max(min_count, 2))
    return make_result(mean, error, used, "self-similarity/mean", f"no unit occurs {min_count} times")


def partition_isotropy(x: Any) -> Result:
    """Return min Z(a) / max Z(a), Z(a) = sum exp(a.x), over the principal directions a; 1 is isotropic.

    x: (vectors, dim). It depends on the scale of the vectors.
    """
    vectors = as_vectors(x).double()
    axes = torch.linalg.eigh(vectors.T @ vectors / len(vectors)).eigenvectors
    log_ratio = cosine.partition_isotropy_log(vectors, axes)
    return make_result(float(np.exp(log_ratio)), nan, len(vectors), "isotropy/partition", "the sums overflow")


def sampled_cosine(x: Any, pairs: int = cosine.PAIRS) -> Result:
    """Return the mean cosine of random pairs, as papers estimate it; `mean_cosine` is exact and as fast."""
    check_integer("pairs", pairs, least=2)
    vectors = as_vectors(x)
    return as_result(cosine.sampled_cosine(vectors, pairs), pairs, "mean-cosine/sampled-pairs")


def _documents(documents: Any, vectors: Tensor) -> Tensor | None:
    return None if documents is None else as_codes(documents, vectors, "documents")


def _unit_sums(vectors: Tensor, codes: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of each unit's vectors and their mean, less the centre: (units,), (units, dim)"""
    n = torch.bincount(codes)
    total = torch.zeros(len(n), vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors, centre):
        total.index_add_(0, codes[rows], block)
    return n, total / n[:, None]


def _moments_by_unit(vectors: Tensor, codes: Tensor) -> tuple[UnitMoments, np.ndarray[Any, Any]]:
    centre = mean_vector(vectors)
    n, means = _unit_sums(vectors, codes, centre)
    squares = torch.zeros(len(n), dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors, centre):
        squares.index_add_(0, codes[rows], block.square().sum(1))
    counts = n.cpu().numpy()
    total = (means * n[:, None]).cpu().numpy()
    return unit_moments(counts, total, squares.cpu().numpy(), centre.cpu().numpy()), counts
