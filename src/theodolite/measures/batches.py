"""Measures of shuffled batches of the sample: mean and standard deviation over batches, as papers report them."""

from __future__ import annotations

from itertools import pairwise
from math import nan, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.measures.formula import formula
from theodolite.measures.spectrum import largest_eigenvalue

BATCH_SIZE = 4096
"""Minimum number of vectors in a batch."""
ONE_BATCH = "the sample is one batch; --sample-size 8192 would make two"
_ROWS = 1024
"""Rows per float32 product; the products are added in float64."""
FLOAT64_UNITS = ((8, 0), (9, 0), (10, 0))
"""Compute capabilities of A100, H100 or H200, and B200."""


class BatchAverage(NamedTuple):
    """Mean and standard deviation (n - 1) over batches; the latter is NaN for a single batch."""

    mean: float
    sd: float
    batches: int


def split_batches(n: int, least: int = BATCH_SIZE) -> list[slice]:
    """Split n shuffled vectors into the largest number of nearly equal batches of at least `least` vectors.

    >>> split_batches(9, 4), split_batches(3, 4)
    ([slice(0, 4, None), slice(4, 9, None)], [])
    """
    count = n // least
    edges = [n * number // count for number in range(count + 1)] if count else []
    return [slice(start, stop) for start, stop in pairwise(edges)]


def explain_too_few(n: int, least: int = BATCH_SIZE) -> str:
    """Return the reason why there is no batch."""
    return f"{n:,} vectors in the sample, and a batch has at least {least:,}"


@formula(
    "anisotropy-svd/shuffled-batches",
    "anisotropy_svd_shuffled",
    "anisotropy_svd_shuffled_sd",
    definition="s_1^2 / sum s_i^2 of batches of at least 4,096 vectors of the sample, each centred at its own "
    "mean; mean and s.d. over batches. The sample is chosen by hash, so its order is random.",
    cost="from the sample; n dim^2",
    citation="Razzhigaev et al. 2024, The Shape of Learning (there over contiguous batches)",
)
@formula(
    "twonn/shuffled-batches",
    "twonn_batch",
    "twonn_batch_sd",
    definition="twonn/keep90 of batches of at least 4,096 shuffled vectors of the sample, repeats dropped within "
    "each; mean and s.d. over batches. It depends on the size of a batch: compare only at equal N.",
    cost="exact distances within each batch; 4,096 n dim",
    citation="Razzhigaev et al. 2024, The Shape of Learning",
)
def average_batches(values: list[float]) -> BatchAverage:
    """Return mean and standard deviation of the values of the batches. (batches,)

    >>> average_batches([1.0, 3.0])
    BatchAverage(mean=2.0, sd=1.4142135623730951, batches=2)
    """
    count = len(values)
    if not count:
        return BatchAverage(nan, nan, 0)
    mean = sum(values) / count
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else nan
    return BatchAverage(mean, spread, count)


@formula(
    "anisotropy-svd/batch",
    "batches.anisotropy_svd",
    definition="s_1^2 / sum s_i^2 of one batch of at least 4,096 vectors, centred at its own mean. The batch is a "
    "contiguous chunk of the corpus, or positions of several chunks shuffled by hash (kind).",
    cost="a second pass over a few chunks (`theodolite batches`); n dim^2 per batch",
    citation="Razzhigaev et al. 2024, The Shape of Learning (over contiguous batches)",
)
def batch_anisotropy(vectors: Tensor) -> float:
    """Return s_1^2 / sum s_i^2 of vectors centred at their mean; NaN where nothing varies. (n, dim)

    Uses the covariance or, if there are fewer vectors than coordinates, the products of the vectors with each
    other.

    >>> batch_anisotropy(torch.tensor([[1.0, 5.0], [-1.0, 5.0], [0.0, 6.0], [0.0, 4.0]]))
    0.5
    """
    y = _centre(vectors)
    matrix = _sum_products(y if len(y) >= y.shape[1] else y.T)
    largest, total = largest_eigenvalue(matrix), float(matrix.trace())
    return float(largest / total) if total > 0 else nan


def _centre(vectors: Tensor) -> Tensor:
    """Return the differences from the mean in float32, scaled so that the largest coordinate is 1."""
    x = vectors if vectors.dtype == torch.float64 else vectors.float()
    y = (x - x.mean(0, dtype=torch.float64).to(x.dtype)).float()
    y -= y.mean(0)  # the rounding error of the mean
    return y / (float(y.abs().amax()) or 1.0)  # so that no square overflows


def _sum_products(y: Tensor) -> Tensor:
    """Return the sum of the outer products of the rows, in float64. (n, dim) -> (dim, dim)"""
    if _has_float64_units(y.device):
        wide = y.double()
        return wide.T @ wide
    total = torch.zeros(y.shape[1], y.shape[1], dtype=torch.float64, device=y.device)
    for start in range(0, len(y), _ROWS):
        rows = y[start : start + _ROWS]
        total += rows.T @ rows
    return total


def _has_float64_units(device: torch.device) -> bool:
    """Return whether matrix units of this GPU multiply float64, faster than others do float32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) in FLOAT64_UNITS
