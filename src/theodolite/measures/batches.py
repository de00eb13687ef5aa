"""Batches: a measure of shuffled parts of the sample, with its mean and spread, as papers report it."""

from __future__ import annotations

from itertools import pairwise
from math import nan, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.measures.formula import formula
from theodolite.measures.spectrum import eigenvalues

BATCH = 4096
"""Vectors that a batch holds at least."""
ONE_BATCH = "the sample is one batch; --sample-size 8192 would make two"
_ROWS = 1024
"""Rows multiplied at a time in float32; between, sums are float64."""


class Batched(NamedTuple):
    """Mean and standard deviation (n - 1) over batches; the latter NaN for a single one."""

    mean: float
    sd: float
    batches: int


def slices(n: int, least: int = BATCH) -> list[slice]:
    """Cut n shuffled vectors into as many nearly equal batches of at least `least` as there can be.

    >>> slices(9, 4), slices(3, 4)
    ([slice(0, 4, None), slice(4, 9, None)], [])
    """
    count = n // least
    edges = [n * number // count for number in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(edges)]


def too_few(n: int, least: int = BATCH) -> str:
    """Say why there is no batch."""
    return f"{n:,} vectors in the sample, and a batch has at least {least:,}"


@formula(
    "anisotropy-svd/shuffled-batches",
    "anisotropy_svd_shuffled",
    "anisotropy_svd_shuffled_sd",
    definition="s_1^2 / sum s_i^2 of batches of at least 4,096 vectors of the sample, each centred at its own "
    "mean: mean and s.d. over batches. The sample is chosen by hash, which is a shuffle.",
    cost="from the sample; n dim^2",
    citation="Razzhigaev et al. 2024, The Shape of Learning (there of contiguous batches)",
)
@formula(
    "twonn/shuffled-batches",
    "twonn_batch",
    "twonn_batch_sd",
    definition="twonn/keep90 of batches of at least 4,096 shuffled vectors of the sample, repeats dropped within "
    "each: mean and s.d. over batches. It depends on how many vectors a batch has: compare only at equal N.",
    cost="exact distances within each batch; 4,096 n dim",
    citation="Razzhigaev et al. 2024, The Shape of Learning",
)
def averaged(values: list[float]) -> Batched:
    """Return mean and standard deviation of the batches' values.

    >>> averaged([1.0, 3.0])
    Batched(mean=2.0, sd=1.4142135623730951, batches=2)
    """
    count = len(values)
    if not count:
        return Batched(nan, nan, 0)
    mean = sum(values) / count
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else nan
    return Batched(mean, spread, count)


@formula(
    "anisotropy-svd/batch",
    "batches.anisotropy_svd",
    definition="s_1^2 / sum s_i^2 of one batch of at least 4,096 vectors, centred at its own mean; the batch is a "
    "contiguous stretch of the corpus, or positions of several stretches shuffled by hash (kind).",
    cost="a second pass over a few stretches (`theodolite batches`); n dim^2 a batch",
    citation="Razzhigaev et al. 2024, The Shape of Learning (of contiguous batches)",
)
def batch_anisotropy(vectors: Tensor) -> float:
    """Return the SVD anisotropy of these vectors, centred at their mean; NaN where nothing varies. (n, dim)

    From their covariance or, where there are fewer vectors than coordinates, from their products with each other.

    >>> batch_anisotropy(torch.tensor([[1.0, 5.0], [-1.0, 5.0], [0.0, 6.0], [0.0, 4.0]]))
    0.5
    """
    y = _centred(vectors)
    matrix = _products(y if len(y) >= y.shape[1] else y.T)
    # All eigenvalues: the largest alone, by scipy, is quicker and stops every other thread meanwhile.
    largest, total = eigenvalues(matrix)[0], float(matrix.trace())
    return float(largest / total) if total > 0 else nan


def _centred(vectors: Tensor) -> Tensor:
    """Return the differences from the mean in float32, which rounds them by little, the largest coordinate 1."""
    x = vectors if vectors.dtype == torch.float64 else vectors.float()
    y = (x - x.mean(0, dtype=torch.float64).to(x.dtype)).float()
    y -= y.mean(0)  # what rounding the mean has left
    return y / (float(y.abs().amax()) or 1.0)  # so that no square overflows


def _products(y: Tensor) -> Tensor:
    """Return the sum of rows' outer products, float32 within a thousand rows. (n, dim) -> (dim, dim)"""
    total = torch.zeros(y.shape[1], y.shape[1], dtype=torch.float64, device=y.device)
    for start in range(0, len(y), _ROWS):
        rows = y[start : start + _ROWS]
        total += rows.T @ rows
    return total
