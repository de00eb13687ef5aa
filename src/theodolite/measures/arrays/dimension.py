"""Intrinsic dimension, hubness and duplicates of an array, from nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.measures import intrinsic_dimension as formulas
from theodolite.measures.arrays.result import Result, as_result, as_vectors, check_integer, make_result
from theodolite.measures.cosine import directions
from theodolite.measures.duplicates import distinct
from theodolite.measures.neighbours import MAX_NEIGHBOURS, neighbourhood

METRICS = ("euclidean", "cosine", "dot")
_ROWS = 1024
"""Rows multiplied with all others at a time, for dot products."""


@dataclass(frozen=True, slots=True)
class IntrinsicDimension:
    """TwoNN estimates of one sample; `float()` gives the fit."""

    fit: Result
    """Slope of -log(1 - F) on log mu through 0, without the top 10%: the paper's form."""
    ml: Result
    """The maximum-likelihood form, (n - 1) / sum of log mu."""
    duplicates: int
    """Vectors that were dropped because they repeat another."""

    @property
    def value(self) -> float:
        """The fit's value."""
        return self.fit.value

    @property
    def se(self) -> float:
        """The fit's standard error."""
        return self.fit.se

    def __float__(self) -> float:
        return self.fit.value


def twonn(x: Any) -> IntrinsicDimension:
    """Estimate the intrinsic dimension from the distances to the two nearest neighbours. x: (vectors, dim)

    Every vector is compared with every other, n^2 dim operations: give it a sample of some thousand. The estimate
    depends on n.

    >>> plane = torch.rand(1000, 2, generator=torch.Generator().manual_seed(0)) @ torch.rand(2, 9)
    >>> round(float(twonn(plane)))
    2
    """
    found = formulas.twonn(as_vectors(x))
    reason = found.reason or "not finite"
    return IntrinsicDimension(
        make_result(found.keep90, found.se, found.n, "twonn/keep90", reason),
        make_result(found.ml, found.ml_se, found.n, "twonn/ml", reason),
        found.duplicates,
    )


def gride(x: Any, scale: int = 1) -> Result:
    """Estimate the intrinsic dimension at the scale of neighbours `scale` and 2 `scale`. x: (vectors, dim)"""
    check_integer("scale", scale, most=MAX_NEIGHBOURS // 2)
    near = neighbourhood(as_vectors(x)).cpu()
    return as_result(formulas.gride(near.distances, scale), len(near.distances), "gride/n1-2n1")


def mle_dimension(x: Any, k: int = formulas.LEVINA_BICKEL) -> Result:
    """Estimate the intrinsic dimension by Levina and Bickel's likelihood of k neighbours. x: (vectors, dim)"""
    check_integer("k", k, 2, MAX_NEIGHBOURS)
    near = neighbourhood(as_vectors(x)).cpu()
    return as_result(formulas.levina_bickel(near.distances, k), len(near.distances), "mle/k20")


def hubness(x: Any, k: int = formulas.HUBNESS_K, metric: str = "euclidean") -> Result:
    """Return the skewness of how often each vector is among the k nearest of the others. x: (vectors, dim)

    metric: "euclidean", "cosine" or "dot". Take the one that your search uses: they can disagree. Duplicates are
    dropped first, and by cosine zero vectors too.
    """
    vectors = as_vectors(x)
    if metric not in METRICS:
        raise InputError(f"metric: expected one of {', '.join(METRICS)}, got {metric!r}.")
    check_integer("k", k, most=MAX_NEIGHBOURS)
    if metric == "cosine":
        vectors = directions(vectors[(vectors != 0).any(dim=1)])
    others = _largest_products(vectors, k) if metric == "dot" else neighbourhood(vectors).cpu().others
    return as_result(formulas.hubness(others, k), len(others), "hubness/skew-k10")


def count_duplicates(x: Any) -> int:
    """Return how many vectors repeat an earlier one exactly. x: (vectors, dim)

    >>> count_duplicates([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    1
    """
    vectors = as_vectors(x)
    return len(vectors) - len(distinct(vectors))


def _largest_products(vectors: Tensor, k: int) -> Tensor:
    """Return the k other distinct vectors with the largest dot product with each: (n, at most k)"""
    vectors = vectors[distinct(vectors)].double()
    n = len(vectors)
    found = []
    for start in range(0, n, _ROWS):
        products = vectors[start : start + _ROWS] @ vectors.T
        rows = torch.arange(len(products), device=vectors.device)
        products[rows, rows + start] = -torch.inf
        found.append(products.topk(min(k, n - 1), dim=1).indices)
    return torch.cat(found).cpu()
