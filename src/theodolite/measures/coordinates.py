"""Contribution of each coordinate to Q, M, V, V_W, V_B and the mean cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula
from theodolite.measures.unit_sums import Sums, spread_of_means, sum_units

Array = NDArray[np.float64]
PAPER = "Yamagiwa and Shimodaira 2024, eq. (17)-(23) and appendix D"
SQUARES = 2e-6
"""Relative error of a sum of squares: float32 within a batch, float64 between batches."""
DIRECTIONS = 1e-6
"""Error of the squares of n unit vectors, relative to n: x/|x| is float32."""


@formula(
    "coordinates/moments",
    "q_i",
    "mu_i",
    "v_i",
    definition="q_i = E x_i^2, mu_i = E x_i, v_i = E (x_i - mu_i)^2; q_i = mu_i^2 + v_i. "
    "Their sums over i are Q, M (of mu_i^2) and V.",
    cost="mu_i exact; v_i within 2e-6 of E (x_i - c_i)^2, from the scatter's diagonal about the pilot's centre c",
    citation=PAPER,
)
def coordinate_moments(mean: Array, v: Array) -> tuple[Array, Array]:
    """Return q_i = mu_i^2 + v_i and v_i (not below 0) from the mean and the scatter's variances. (dim,) each

    >>> coordinate_moments(np.array([3.0, 0.0]), np.array([1.0, -1e-9]))
    (array([10.,  0.]), array([1., 0.]))
    """
    kept = np.maximum(v, 0.0)
    return np.square(mean) + kept, kept


@formula(
    "coordinates/between",
    "v_between_i",
    definition="v_between_i = sum p_t (mu_i(X_t) - mu_i)^2, with p_t the share of unit t; the sum over i is V_B.",
    cost="exact; from the sums by unit",
    citation=PAPER,
)
def between(n: NDArray[np.int64], total: Sums) -> Array:
    """Return sum p_t (mu_i(X_t) - mu_i)^2 of each coordinate. (units,), (units, dim) -> (dim,)

    >>> between(np.array([1, 1]), np.array([[0.0, 5.0], [2.0, 5.0]]))
    array([1., 0.])
    """
    return spread_of_means(n, total, sum_units(total) / n.sum())


@formula(
    "coordinates/within",
    "v_within_i",
    definition="v_within_i = sum p_t v_i(X_t) = v_i - v_between_i; the sum over i is V_W.",
    cost="within 2e-6 of E (x_i - c_i)^2; smaller values are set to 0",
    citation=PAPER,
)
def within(second: Array, v: Array, v_between: Array) -> Array:
    """Return v - v_between where it exceeds the rounding of `second`, E (x_i - c_i)^2; else 0. (dim,) each

    >>> within(np.array([5.0, 5.0]), np.array([4.0, 4.0]), np.array([1.0, 3.9999999]))
    array([3., 0.])
    """
    v_within = v - v_between
    return np.where(v_within > SQUARES * second, v_within, 0.0)


@formula(
    "cosine-share/coordinate",
    "cosine_share_i",
    definition="Contribution of coordinate i to the mean cosine: (S_i^2 - sum u_i^2) over its sum over i, with "
    "u = x/|x| and S = sum u. The shares sum to 1; some may be negative.",
    cost="exact; two vectors",
    citation="Timkey and van Schijndel 2021, All Bark and No Bite (there over sampled pairs)",
)
def cosine_shares(n: int, total: Array, squares: Array) -> Array:
    """Return each coordinate's share; NaN where fewer than two vectors have a direction or the mean cosine is 0.

    A mean cosine within rounding of 0 counts as 0. total, squares: (dim,)

    >>> cosine_shares(2, np.array([1.6, 0.0]), np.array([1.28, 0.72]))  # of (0.8, 0.6) and (0.8, -0.6)
    array([ 2.28571429, -1.28571429])
    >>> cosine_shares(2, np.array([1.0, 1.0]), np.array([1.0, 1.0]))  # of (1, 0) and (0, 1)
    array([nan, nan])
    """
    parts = np.square(total) - squares
    whole = parts.sum()
    if n < 2 or abs(whole) <= DIRECTIONS * n:
        return np.full_like(parts, np.nan)
    return np.asarray(parts / whole)


class Rogue(NamedTuple):
    """The coordinate with the largest share, that share, and the fewest coordinates that make half."""

    coordinate: int | None
    share: float
    half: int | None


@formula(
    "rogue/cosine",
    "rogue_coordinate",
    "rogue_cosine_share",
    "rogue_half",
    definition="The coordinate with the largest share of the mean cosine, that share, and the fewest coordinates "
    "whose shares sum to at least half.",
    cost="exact; from coordinates.parquet's cosine_share_i",
    citation="Timkey and van Schijndel 2021, All Bark and No Bite",
)
@formula(
    "rogue/variance",
    "rogue_variance_coordinate",
    "rogue_variance_share",
    definition="The coordinate with the largest share of V, and that share.",
    cost="exact; from coordinates.parquet's v_i",
    citation="Theodolite; after the outlier dimensions of Kovaleva et al. 2021 (there by the weights of "
    "LayerNorm)",
)
def rogue(shares: Array) -> Rogue:
    """Return the coordinate with the largest share; None and NaN where the shares are NaN. (dim,)

    >>> rogue(np.array([0.2, 0.9, -0.1]))
    Rogue(coordinate=1, share=0.9, half=1)
    """
    if not np.isfinite(shares).all() or not len(shares):
        return Rogue(None, float("nan"), None)
    held = np.cumsum(np.sort(shares)[::-1])
    first = int(shares.argmax())
    return Rogue(first, float(shares[first]), int((held >= 0.5 - 1e-12).argmax()) + 1)
