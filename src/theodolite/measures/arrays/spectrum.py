"""How many dimensions the vectors of an array occupy: measures of the covariance's eigenvalues.

Standard errors are first-order: the influence of x on an eigenvalue l with eigenvector a is ((x - mean).a)^2 - l.
They hold for many more vectors than dimensions. With few vectors the spectrum is biased, which no error bar shows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError
from theodolite.measures import layer_scores
from theodolite.measures import spectrum as formulas
from theodolite.measures.arrays.result import (
    Result,
    as_codes,
    as_vectors,
    blocks,
    clustered_error,
    make_result,
    mean_vector,
)
from theodolite.measures.coordinates import rogue

Array = NDArray[np.float64]
ALL_EQUAL = "all vectors are equal"


def anisotropy_svd(x: Any, *, documents: Any = None) -> Result:
    """Return the share of the variance along the first principal direction: 1/dim is isotropic, 1 is a line.

    x: (vectors, dim), centred here. documents: one label per vector, for the standard error.

    >>> anisotropy_svd(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).value
    0.8
    """

    def slope(values: Array) -> Array:
        share = values[0] / values.sum()
        return np.asarray((np.eye(1, len(values))[0] - share) / values.sum())

    return _measure(x, documents, "anisotropy-svd/centred", formulas.anisotropy_svd, slope)


def participation_ratio(x: Any, *, documents: Any = None) -> Result:
    """Return (sum l)^2 / sum l^2 of the covariance's eigenvalues l: an effective dimension from 1 to dim.

    x: (vectors, dim). documents: one label per vector, for the standard error.
    """
    return _measure(x, documents, "participation-ratio/covariance", formulas.participation_ratio, _ratio_slope)


def iso_score(x: Any, *, documents: Any = None) -> Result:
    """Return (PR - 1)/(dim - 1) with PR the participation ratio: 0 on a line, 1 where all axes are equal.

    x: (vectors, dim). documents: one label per vector, for the standard error.
    """
    return _measure(
        x,
        documents,
        "iso-score/covariance",
        formulas.iso_score,
        lambda values: _ratio_slope(values) / (len(values) - 1),
        "all vectors are equal, or have one coordinate",
    )


def effective_rank(x: Any, *, documents: Any = None) -> Result:
    """Return exp of the entropy of the shares of variance along the principal directions.

    x: (vectors, dim). documents: one label per vector, for the standard error.
    """

    def slope(values: Array) -> Array:
        share = values / values.sum()
        logs = np.log(np.where(share > 0, share, 1.0))
        entropy = -(share * logs).sum()
        return np.where(share > 0, -np.exp(entropy) * (logs + entropy) / values.sum(), 0.0)

    return _measure(x, documents, "effective-rank/eigenvalues", formulas.effective_rank, slope)


def effective_rank_singular(x: Any) -> Result:
    """Return exp of the entropy of the singular values over their sum, which weighs small directions more."""
    return _measure(x, None, "effective-rank/singular-values", formulas.effective_rank_singular, None)


def rankme(x: Any) -> Result:
    """Return exp of the entropy of the singular values over their sum, of the vectors as they are, not centred."""
    return _measure(x, None, "rankme/uncentred", layer_scores.rankme, None, "all vectors are 0", centred=False)


def alpha_req(x: Any, *, documents: Any = None) -> Result:
    """Return the exponent of the power law by which the eigenvalues of the covariance decay, ranks 4 to 100.

    x: (vectors, dim), with at least 11 coordinates. documents: one label per vector, for the standard error.
    """

    def slope(values: Array) -> Array:
        weights = layer_scores.alpha_weights(values)
        return np.asarray(-weights / np.where(weights == 0, 1.0, values))

    return _measure(x, documents, "alpha-req/ranks-4-100", layer_scores.alpha_req, slope, layer_scores.FEW_RANKS)


def pca_dimension(x: Any, share: float = 0.9) -> Result:
    """Return the fewest principal components that hold this share of the variance.

    >>> pca_dimension(np.diag([9.0, 1.0, 1.0]) - np.diag([9.0, 1.0, 1.0]).mean(0), 0.5).value
    1.0
    """
    if not 0 < share <= 1:
        raise InputError(f"share: expected a fraction above 0 and at most 1, got {share}; for 95% give 0.95.")
    return _measure(x, None, "pca-dimension/share", lambda values: formulas.pca_dimension(values, share), None)


def stable_rank(x: Any, *, documents: Any = None) -> Result:
    """Return |X|_F^2 / |X|_2^2 of the vectors as they are, not centred.

    x: (vectors, dim). documents: one label per vector, for the standard error.
    """

    def slope(values: Array) -> Array:
        return np.asarray((1 - np.eye(1, len(values))[0] * values.sum() / values[0]) / values[0])

    return _measure(
        x, documents, "stable-rank/uncentred", formulas.stable_rank, slope, "all vectors are 0", centred=False
    )


def eigenvalues(x: Any) -> Array:
    """Return the eigenvalues of the covariance, largest first: (dim,) float64."""
    vectors = as_vectors(x)
    return formulas.eigenvalues(_second_moment(vectors, mean_vector(vectors)))


def rogue_dimension(x: Any) -> Result:
    """Return the largest share of the variance that one coordinate holds; `eigenvalues` has the directions."""
    vectors = as_vectors(x)
    mean = mean_vector(vectors)
    variances = torch.zeros_like(mean)
    for _, block in blocks(vectors, mean):
        variances += block.square().sum(0)
    total = float(variances.sum())
    share = rogue(variances.cpu().numpy() / total).share if total > 0 else nan
    return make_result(share, nan, len(vectors), "rogue/variance", ALL_EQUAL)


def _ratio_slope(values: Array) -> Array:
    total, squares = values.sum(), np.square(values).sum()
    return np.asarray(2 * total / squares - 2 * total**2 * values / squares**2)


def _measure(
    x: Any,
    documents: Any,
    formula_id: str,
    measure: Callable[[Array], float],
    slope: Callable[[Array], Array] | None,
    reason: str = ALL_EQUAL,
    *,
    centred: bool = True,
) -> Result:
    """Apply a function of the eigenvalues; `slope` is its gradient, from which the standard error comes."""
    vectors = as_vectors(x)
    n, clusters = len(vectors), None if documents is None else as_codes(documents, vectors, "documents")
    centre = mean_vector(vectors) if centred else torch.zeros_like(vectors[0], dtype=torch.float64)
    values, axes = formulas.eigenvectors(_second_moment(vectors, centre))
    value = measure(values)
    if slope is None or not np.isfinite(value):
        return make_result(value, nan, n, formula_id, reason)
    gradient = torch.from_numpy(np.ascontiguousarray(slope(values)[::-1])).to(axes)  # the axes are smallest first
    influence = torch.empty(n, dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors, centre):
        influence[rows] = (block @ axes).square_() @ gradient
    return make_result(value, clustered_error(influence, clusters), n, formula_id, reason)


def _second_moment(vectors: Tensor, centre: Tensor) -> Tensor:
    moment = centre.new_zeros(len(centre), len(centre))
    for _, block in blocks(vectors, centre):
        moment.addmm_(block.T, block)
    return moment / len(vectors)
