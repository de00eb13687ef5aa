"""The partition function: whether the vectors crowd one side, by sums of exponentials."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.as_tensor import as_tensor
from theodolite.measures.formula import formula

Array = NDArray[np.float64]
MOST = 2048
"""Vectors of the sample that are summed over: a product of them with dim directions in float64 each layer."""


@formula(
    "isotropy/partition",
    "partition_isotropy",
    "partition_isotropy_log",
    definition="min over max of Z(a) = sum exp(a.x), a over the eigenvectors of E x x^T and their opposites; 1 is "
    "isotropic. And its logarithm, which does not underflow.",
    cost="sums over up to 2,048 vectors of the sample, in log space; directions of everything, exact",
    citation="Mu and Viswanath 2018, All-but-the-Top; after Arora et al. 2016",
)
def partition_isotropy_log(vectors: NDArray[np.floating] | Tensor, directions: Array | Tensor) -> float:
    """Return log of min Z / max Z; NaN without vectors. vectors: (n, dim), directions: (dim, any), unit columns

    Vectors are taken as they are: multiplied by 2, their measure falls. Only differences of the largest
    exponents enter, so that norms of 20,000 overflow nothing. Vectors in a tensor are multiplied where it lies.

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
