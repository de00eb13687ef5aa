"""Mean cosine: how much the vectors lean the same way, over all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula


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
