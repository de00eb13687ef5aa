"""Q = M + V and V = V_W + V_B: squared norms, means and spread, per unit and over all positions.

Yamagiwa and Shimodaira (2024), Norm of Mean Contextualized Embeddings Determines their Variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula
from theodolite.measures.resampling import describe_errors
from theodolite.measures.unit_sums import Rows, Sums, distances_of_sets, squared_distances, sum_sets

Array = NDArray[np.float64]
PAPER = "Yamagiwa and Shimodaira 2024, eq. (1), (4)-(6), (8)-(11)"


class UnitMoments(NamedTuple):
    """Q, M and V of every unit, each (units,)."""

    q: Array
    m: Array
    v: Array


class Rest(NamedTuple):
    """Sums over all units that have no vector of their own, about the centre, and the spread within them."""

    n: int
    sum: Array  # (dim,)
    squares: float
    within: float  # estimated sum over positions of |x - mean of the unit|^2


class Decomposition(NamedTuple):
    """Q, M, V, V_W and V_B over all given units."""

    q: float
    m: float
    v: float
    v_within: float
    v_between: float


@formula(
    "qmv/unit",
    "tokens.q",
    "tokens.m",
    "tokens.v",
    definition="Q = E|x|^2, M = |E x|^2, V = E|x - E x|^2 over the occurrences of one unit; Q = M + V.",
    cost="exact; one float64 vector per unit",
    citation=PAPER,
)
def unit_moments(n: NDArray[np.int64], total: Sums, squares: Array, centre: Array) -> UnitMoments:
    """Return Q, M and V of each unit from its sums about the centre.

    V = squares/n - |total/n|^2 does not cancel because the centre is near the vectors. Values below the rounding
    of the sums, which grows with n where vectors are equal, are set to 0, and V of a single occurrence is 0 by
    definition. n: (units,), total: (units, dim), squares: (units,), centre: (dim,).

    >>> x = np.array([[1.0, 0.0], [3.0, 0.0]])
    >>> unit_moments(np.array([2]), x.sum(0, keepdims=True), np.array([10.0]), np.zeros(2))
    UnitMoments(q=array([5.]), m=array([4.]), v=array([1.]))
    """
    second = squares / n
    about, m = squared_distances(n, total, np.zeros_like(centre), -centre)
    v = second - about
    rounding = np.finfo(np.float64).eps * (100 + n / 2) * second  # equal terms are rounded alike
    v[(v <= rounding) | (n == 1)] = 0.0
    return UnitMoments(m + v, m, v)


@formula(
    "qmv/unit-unbiased",
    "m_unbiased",
    "v_unbiased",
    definition="V_u = n V/(n - 1) and M_u = M - V/(n - 1): corrected for the bias of small n; undefined at n = 1. "
    "Occurrences count as independent. Those of one document are alike, so V_u is still too small for units that "
    "occur in few documents; tokens.v_clustered allows for this.",
    cost="exact",
    citation="Bessel's correction applied to " + PAPER,
)
def unbiased(n: NDArray[np.int64], m: Array, v: Array) -> tuple[Array, Array]:
    """Return M_u = M - V/(n - 1) and V_u = n V/(n - 1), NaN where n = 1. Their sum is Q. All (units,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(n > 1, v / (n - 1.0), np.nan)
    return m - share, v + share


@formula(
    "qmv/unit-clustered",
    "tokens.m_clustered",
    "tokens.v_clustered",
    definition="M_c: mean of x.y over pairs of occurrences in different windows, (|sum x|^2 - sum over windows of "
    "|sum x|^2)/(n^2 - sum over windows of n_w^2); V_c = Q - M_c. Unbiased if windows are independent, however "
    "alike occurrences within a window are; undefined if all are in one window. A document that fits the model is "
    "one window; windows of one longer document count as independent.",
    cost="exact; two numbers per unit; computed with --contextuality",
    citation="Cochran 1977, Sampling Techniques, chapter 9; Theodolite",
)
def clustered(
    n: NDArray[np.int64], q: Array, m: Array, pairs: NDArray[np.int64], squares: Array
) -> tuple[Array, Array]:
    """Return M_c and V_c of each unit, NaN if all its occurrences are in one window. All (units,)

    pairs and squares: the sums over windows of n_w^2 and of |sum of x in the window|^2.

    >>> x = np.array([1.0, 1.0, 3.0])  # the first two in one window: products 3 and 3
    >>> clustered(np.array([3]), np.array([11 / 3]), np.array([25 / 9]), np.array([4 + 1]), np.array([4.0 + 9.0]))
    (array([3.]), array([0.66666667]))
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        between = n.astype(np.float64) ** 2 - pairs
        found = np.where(between > 0, (np.square(n) * m - squares) / between, np.nan)
    return found, q - found


@formula(
    "qmv/all",
    "q",
    "m",
    "v",
    "v_within",
    "v_between",
    definition="Q = M + V of all vectors, V = V_W + V_B: V_W = sum p_t V(X_t), V_B = sum p_t |mu_t - mu|^2.",
    cost="exact; from the sums by unit",
    citation=PAPER,
    error=describe_errors(),
)
def decomposition(
    n: NDArray[np.int64], total: Sums, squares: Array, centre: Array, unit_v: Array
) -> Decomposition:
    """Return Q, M, V, V_W and V_B over all units; V_B is summed directly, not subtracted.

    n, squares, unit_v: (units,), total: (units, dim), centre: (dim,)
    """
    (found,) = decompositions(n, total, centre, unit_v, [None], [None])
    return found


def decompositions(
    n: NDArray[np.int64],
    total: Sums,
    centre: Array,
    unit_v: Array,
    sets: Sequence[Rows | None],
    rests: Sequence[Rest | None],
) -> list[Decomposition]:
    """Return the decomposition over each set of units: some rows of `total`, or all.

    With a `Rest`, more units whose vectors are known only together, Q, M and V are exact all the same; V_W is as
    good as the estimate there, and V_B is what it leaves of V. On a device, the sums are read twice for all sets
    together. n, unit_v: (units,) of all units, total: (units, dim), centre: (dim,)
    """
    counts = [n if rows is None else n[rows] for rows in sets]
    positions = [count.sum() + (0 if rest is None else rest.n) for count, rest in zip(counts, rests, strict=True)]
    means = [
        (of_set if rest is None else of_set + rest.sum) / number
        for of_set, rest, number in zip(sum_sets(total, sets), rests, positions, strict=True)
    ]
    away = distances_of_sets(n, total, means, sets)
    return [
        _decompose(count, number, mean, unit_v if rows is None else unit_v[rows], far, rest, centre)
        for count, number, mean, rows, far, rest in zip(counts, positions, means, sets, away, rests, strict=True)
    ]


def _decompose(
    n: NDArray[np.int64], positions: int, mean: Array, unit_v: Array, away: Array, rest: Rest | None, centre: Array
) -> Decomposition:
    """Return the decomposition from the mean about the centre and each unit's squared distance from it."""
    m = float(np.square(mean + centre).sum())
    if rest is None:
        share = n / positions
        v_within, v_between = float(share @ unit_v), float(share @ away)
        return Decomposition(m + v_within + v_between, m, v_within + v_between, v_within, v_between)
    within, between = float(n @ unit_v), float(n @ away)
    far = max(rest.squares - 2 * float(rest.sum @ mean) + rest.n * float(mean @ mean), 0.0)
    v = (within + between + far) / positions
    v_within = min((within + rest.within) / positions, v)
    return Decomposition(m + v, m, v, v_within, v - v_within)


FREQUENT = (10, 100_000)
"""The paper's figures use units with 1 <= log10 n <= 5."""


@formula(
    "qmv/filtered",
    "filtered_q",
    "filtered_m",
    "filtered_v",
    "filtered_v_within",
    "filtered_v_between",
    "units_used",
    definition="qmv/all over the units with 1 <= log10 n <= 5; undefined for fewer than three such units.",
    cost="exact; from the sums by unit",
    citation=PAPER + ", figures 4 to 6",
    error=describe_errors("filtered_"),
)
def frequent(n: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which units pass the paper's frequency filter. (units,) -> (units,)"""
    return (n >= FREQUENT[0]) & (n <= FREQUENT[1])


@formula(
    "qmv/text",
    "text_q",
    "text_m",
    "text_v",
    "text_v_within",
    "text_v_between",
    "text_units_used",
    definition="qmv/filtered over the units that are not special (CLS, SEP, BOS, EOS). In the paper's corpus the "
    "frequency filter already removes special units; undefined for fewer than three such units.",
    cost="exact; from the sums by unit",
    citation=PAPER + ", figures 4 to 6",
    error=describe_errors("text_"),
)
def frequent_text(n: NDArray[np.int64], special: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which units pass the paper's frequency filter and are not special. (units,) -> (units,)"""
    return frequent(n) & ~special


@formula(
    "qmv/unfiltered-text",
    "unfiltered_text_q",
    "unfiltered_text_m",
    "unfiltered_text_v",
    "unfiltered_text_v_within",
    "unfiltered_text_v_between",
    "unfiltered_text_units_used",
    definition="qmv/all over the units that are not special, of any frequency; undefined if there is no such "
    "unit.",
    cost="exact; from the sums by unit",
    citation=PAPER,
    error=describe_errors("unfiltered_text_"),
)
def all_text(n: NDArray[np.int64], special: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which units are not special. (units,) -> (units,)"""
    return ~special
