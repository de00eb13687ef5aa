"""Anisotropy: the mean cosine over all or sampled pairs, and the partition function."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.hashing import mix
from theodolite.measures.formula import formula
from theodolite.measures.uncertainty import Estimate


def as_tensor(rows: NDArray[np.floating] | Tensor) -> Tensor:
    """Return a tensor unchanged, an array as a copy: PyTorch rejects negative strides and read-only arrays."""
    return rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows, order="C"))


PAIRS = 1000
NO_DIRECTION = "fewer than two vectors of the sample have a direction"


@formula(
    "mean-cosine/all-pairs",
    "mean_cosine",
    definition="Mean of cos(x, y) over all ordered pairs of distinct positions: (|sum x/|x||^2 - n)/(n (n - 1)).",
    cost="exact; one vector",
    citation="Ethayarajh 2019 (there over sampled pairs); Godey et al. 2023",
    error="jackknife over 20 document groups (mean_cosine_se)",
)
def mean_cosine(n: int, total: NDArray[np.float64]) -> float:
    """Return (|total|^2 - n)/(n (n - 1)) of n unit vectors with this sum; NaN for n < 2. total: (dim,)

    >>> mean_cosine(2, np.array([1.0, 1.0]))
    0.0
    """
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else float("nan")


@formula(
    "mean-cosine/sampled-pairs",
    "sampled_cosine",
    definition="Mean of cos(x, y) over 1,000 random pairs of distinct vectors of the sample, drawn with "
    "replacement by a fixed hash: how papers estimate mean_cosine.",
    cost="from the sample; 1,000 products",
    citation="Ethayarajh 2019; Godey et al. 2023",
    error="s.d. of the cosines over sqrt(1,000), as if independent (sampled_cosine_se)",
)
def sampled_cosine(vectors: NDArray[np.floating] | Tensor, pairs: int = PAIRS) -> Estimate:
    """Return the mean cosine of random pairs of rows and its standard error. (vectors, dim)

    Zero vectors have no direction and are excluded. The pairs depend only on the number of rows. A tensor is
    multiplied on its device.

    >>> round(sampled_cosine(np.eye(4) + 1).value, 9)  # 6/7 for every pair
    0.857142857
    """
    x = as_tensor(vectors)
    kept = (x != 0).any(dim=1).nonzero().squeeze(1)
    n = len(kept)
    if n < 2:
        return Estimate.undefined(NO_DIRECTION)
    draws = np.arange(pairs)
    left = (mix(0, draws) % np.uint64(n)).astype(np.int64)
    right = (left + 1 + (mix(1, draws) % np.uint64(n - 1)).astype(np.int64)) % n
    of_left, of_right = directions(x[kept[to_device(torch.from_numpy(np.stack([left, right])), x.device)]])
    cosines = (of_left * of_right).sum(dim=1).cpu().numpy()
    return Estimate(float(cosines.mean()), float(cosines.std(ddof=1) / np.sqrt(pairs)))


@formula(
    "mean-cosine/sample",
    "what-if.mean_cosine",
    definition="Mean of cos(x, y) over all pairs of distinct vectors of the sample.",
    cost="from the sample; one vector",
    citation="Ethayarajh 2019; Hoeffding 1948, for the error",
    error="2 s.d. of each vector's mean cosine with the others, over sqrt(n)",
)
def all_pairs_cosine(vectors: NDArray[np.floating]) -> Estimate:
    """Return the mean cosine over all pairs of rows and its standard error as a U-statistic. (vectors, dim)

    If all vectors have the same mean cosine with the others, as after centring, the error is up to 1.4 times too
    large.

    >>> all_pairs_cosine(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])).value  # 0, 1 and 0
    0.3333333333333333
    """
    x = as_tensor(vectors)
    kept = directions(x[(x != 0).any(dim=1)])
    n = len(kept)
    if n < 2:
        return Estimate.undefined(NO_DIRECTION)
    with_others = ((kept @ kept.sum(dim=0) - 1) / (n - 1)).numpy()
    return Estimate(float(with_others.mean()), float(2 * with_others.std(ddof=1) / np.sqrt(n)))


def directions(rows: Tensor) -> Tensor:
    """Return unit vectors in float64. Rows are first scaled to a largest coordinate of 1: no square underflows."""
    wide = rows.double()
    wide = wide / wide.abs().amax(dim=-1, keepdim=True)
    directions: Tensor = wide / torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return directions


Array = NDArray[np.float64]
PARTITION_VECTORS = 2048
"""Vectors of the sample in the sum: each layer multiplies them with dim directions in float64."""


@formula(
    "isotropy/partition",
    "partition_isotropy",
    "partition_isotropy_log",
    definition="min over max of Z(a) = sum exp(a.x), a over the eigenvectors of E x x^T and their negatives; 1 is "
    "isotropic. And its logarithm, which does not underflow.",
    cost="sums over up to 2,048 vectors of the sample, in log space; eigenvectors from all positions, exact",
    citation="Mu and Viswanath 2018, All-but-the-Top; after Arora et al. 2016",
)
def partition_isotropy_log(vectors: NDArray[np.floating] | Tensor, directions: Array | Tensor) -> float:
    """Return log(min Z / max Z); NaN without vectors. vectors: (n, dim), directions: (dim, any), unit columns

    The measure depends on the scale of the vectors: multiplied by 2, it falls. It is computed in log space, so
    norms of 20,000 do not overflow. A tensor is multiplied on its device.

    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> log_ratio = partition_isotropy_log(cross, np.eye(2))
    >>> bool(np.isclose(np.exp(log_ratio), (2 + 2 * np.cosh(1)) / (2 + 2 * np.cosh(2))))
    True
    """
    if not len(vectors) or 0 in directions.shape:
        return float("nan")
    x = as_tensor(vectors).double()
    exponents = x @ as_tensor(directions).to(x)
    both = torch.cat([exponents.logsumexp(0), exponents.neg_().logsumexp(0)])
    return float(both.min() - both.max())


@formula(
    "unit-neighbours/cosine",
    "neighbours.cosine",
    definition="Cosine of the mean vectors of two units, for the 6 others among the 2,000 most frequent units "
    "with which it is largest.",
    cost="2 units^2 dim operations",
    citation="Theodolite",
)
def largest_cosines(directions: Tensor, nearest: int) -> tuple[Tensor, Tensor]:
    """Return the largest cosines of each unit vector with the others, and those others: (vectors, nearest) each.

    >>> cosine, other = largest_cosines(torch.eye(3)[[0, 1, 0]], 1)
    >>> cosine.tolist(), other[0].item()
    ([[1.0], [0.0], [1.0]], 2)
    """
    cosines = (directions @ directions.T).fill_diagonal_(-2)
    found, others = cosines.topk(nearest, dim=1)
    return found.clamp_(-1, 1), others
