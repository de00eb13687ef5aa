"""Mean cosine: how much the vectors lean the same way, over all pairs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.hashing import mix
from theodolite.measures.as_tensor import as_tensor
from theodolite.measures.estimate import Estimate
from theodolite.measures.formula import formula

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
    """Return the mean cosine of n unit vectors with this sum, NaN for fewer than two. total: (dim,)

    >>> mean_cosine(2, np.array([1.0, 1.0]))
    0.0
    """
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else float("nan")


@formula(
    "mean-cosine/sampled-pairs",
    "sampled_cosine",
    definition="Mean of cos(x, y) over 1,000 random pairs of distinct vectors of the sample, drawn with "
    "replacement by a fixed hash: how papers estimate what mean_cosine is.",
    cost="from the sample; 1,000 products",
    citation="Ethayarajh 2019; Godey et al. 2023",
    error="the cosines' s.d. over sqrt(1,000), as if independent (sampled_cosine_se)",
)
def sampled_cosine(vectors: NDArray[np.floating] | Tensor, pairs: int = PAIRS) -> Estimate:
    """Return the mean cosine of random pairs of rows and its standard error. (vectors, dim)

    Zero vectors have no direction and are left out. The pairs depend on the number of rows alone. Vectors in a
    tensor are multiplied where it lies.

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
    of_left, of_right = _directions(x[kept[torch.from_numpy(np.stack([left, right])).to(x.device)]])
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

    Where no vector leans more than another, as after centring, the error bar is up to 1.4 times too wide.

    >>> all_pairs_cosine(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])).value  # 0, 1 and 0
    0.3333333333333333
    """
    x = as_tensor(vectors)
    kept = _directions(x[(x != 0).any(dim=1)])
    n = len(kept)
    if n < 2:
        return Estimate.undefined(NO_DIRECTION)
    with_others = ((kept @ kept.sum(dim=0) - 1) / (n - 1)).numpy()
    return Estimate(float(with_others.mean()), float(2 * with_others.std(ddof=1) / np.sqrt(n)))


def _directions(rows: Tensor) -> Tensor:
    """Return rows of length 1, in float64; the largest coordinate is made 1 first, so that no square vanishes."""
    wide = rows.double()
    wide = wide / wide.abs().amax(dim=-1, keepdim=True)
    directions: Tensor = wide / torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return directions
