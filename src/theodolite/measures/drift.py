"""The drift test: does the mean cosine of the layers follow the norm of their mean?

Layers are few and each is computed from the previous one, so two series over layers agree by chance far more
often than a p-value for independent points suggests. Two checks allow for this: all circular shifts of one series
against the other, and the correlation of the steps from layer to layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PAPER = "Godey et al. 2023, Is Anisotropy Inherent to Transformers?"
MIN_LAYERS = 3
MAX_PERMUTED = 10
"""Layers up to which all orders are counted: 10! are 3.6 million, 0.05 s."""
ROUNDING = 1e-12
"""Relative: a series that varies by less is constant, and correlations that differ by less are equal."""


class Correlation(NamedTuple):
    """A coefficient with its two-sided p-value; NaN with a reason if undefined."""

    coefficient: float
    p: float
    reason: str = ""


class Shifts(NamedTuple):
    """The p-value over all circular shifts, and the smallest that this number of layers allows."""

    p: float
    floor: float
    reason: str = ""


Correlate = Callable[[Array, Array], Correlation]


@formula(
    "drift/spearman",
    "drift.spearman",
    "drift.spearman_p",
    definition="Spearman's rank correlation over layers of |mean| = sqrt(m) and mean_cosine; p two-sided from "
    "Student's t with layers - 2 degrees of freedom, as if layers were independent.",
    cost="from the table of layers",
    citation=f"{PAPER}, figure 5",
)
def spearman(x: Array, y: Array) -> Correlation:
    """Return Spearman's correlation of two series; pairs with a NaN are excluded. (layers,) each

    >>> spearman(np.array([1.0, 2.0, 30.0]), np.array([0.1, 0.2, 0.3])).coefficient
    1.0
    """
    x, y = drop_undefined(x, y)
    reason = _why_undefined(x, y)
    if reason:
        return Correlation(float("nan"), float("nan"), reason)
    found = stats.spearmanr(x, y)
    return Correlation(float(found.statistic), float(found.pvalue))


@formula(
    "drift/pearson",
    "drift.pearson",
    "drift.pearson_p",
    definition="Pearson's correlation over layers of |mean| = sqrt(m) and mean_cosine; p two-sided for "
    "independent normal layers.",
    cost="from the table of layers",
    citation=f"{PAPER}, figure 11",
)
def pearson(x: Array, y: Array) -> Correlation:
    """Return Pearson's correlation of two series; pairs with a NaN are excluded. (layers,) each

    >>> pearson(np.array([1.0, 2.0, 3.0]), np.array([3.0, 3.0, 3.0])).reason
    'one of the two series is constant'
    """
    x, y = drop_undefined(x, y)
    reason = _why_undefined(x, y)
    if reason:
        return Correlation(float("nan"), float("nan"), reason)
    found = stats.pearsonr(_rescale(x), _rescale(y))
    return Correlation(float(found.statistic), float(found.pvalue))


@formula(
    "drift/exact",
    "drift.spearman_exact_p",
    "drift.pearson_exact_p",
    "drift.spearman_step_exact_p",
    "drift.pearson_step_exact_p",
    definition="Share of all orders of one series whose correlation with the other is at least as strong, of "
    "either sign: the exact p for exchangeable layers, at least 2/layers! (0.017 for five) if no values are tied. "
    "Student's t gives 0 for |r| = 1, whatever the number of layers. Undefined for more than ten layers or steps.",
    cost="from the table of layers; layers!, at most 10! = 3.6 million sums",
    citation="Fisher, The Design of Experiments, 1935; Theodolite",
)
def permutation_p(x: Array, y: Array, correlate: Correlate = spearman) -> Correlation:
    """Return the correlation of two series with its exact p; pairs with a NaN are excluded. (layers,) each

    Permuting y over the first and second half of x separately needs only the sums of each half, for every subset
    of y that the first half may get.

    >>> round(permutation_p(np.arange(5.0), np.arange(5.0) ** 2).p, 6)  # 2/5!
    0.016667
    """
    found = correlate(x, y)
    x, y = drop_undefined(x, y)
    if found.reason:
        return found._replace(p=float("nan"))
    if len(x) > MAX_PERMUTED:
        return found._replace(p=float("nan"), reason=f"more than {MAX_PERMUTED} values to permute")
    if correlate is spearman:
        x, y = (np.asarray(stats.rankdata(series), dtype=np.float64) for series in (x, y))
    dx, dy = _standardise(x), _standardise(y)
    least = abs(dx @ dy) - ROUNDING
    half = len(x) // 2
    first, second = _list_orders(half), _list_orders(len(x) - half)
    strong = 0
    for chosen in combinations(range(len(x)), half):
        rest = np.delete(dy, chosen)
        sums = np.add.outer(dy[list(chosen)][first] @ dx[:half], rest[second] @ dx[half:])
        strong += int((np.abs(sums) >= least).sum())
    return found._replace(p=strong / math.factorial(len(x)))


def best_p(x: Array, y: Array, correlate: Correlate = spearman) -> Correlation:
    """Return the correlation with its exact p for at most ten pairs, otherwise with that of Student's t."""
    exact = permutation_p(x, y, correlate)
    return correlate(x, y) if exact.reason else exact


@cache
def _list_orders(count: int) -> NDArray[np.int64]:
    """Return all orders of this many places. -> (count!, count)"""
    return np.array(list(permutations(range(count))), dtype=np.int64).reshape(math.factorial(count), count)


@formula(
    "drift/circular-shift",
    "drift.spearman_shift_p",
    "drift.pearson_shift_p",
    "drift.shift_floor",
    definition="Share of the circular shifts of |mean| along the layers, including the shift by 0, whose "
    "correlation with mean_cosine is at least as strong, of either sign; at least 1/layers, so never below 0.05 "
    "for fewer than 20 layers.",
    cost="from the table of layers; layers^2",
    citation="Theodolite; a shift preserves the autocorrelation of each series",
)
def circular_shifts(x: Array, y: Array, correlate: Correlate = spearman) -> Shifts:
    """Return the share of all shifts that correlate at least as strongly as the unshifted series. (layers,) each

    >>> circular_shifts(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    Shifts(p=0.25, floor=0.25, reason='')
    """
    x, y = drop_undefined(x, y)
    reason = _why_undefined(x, y)
    if reason:
        return Shifts(float("nan"), float("nan"), reason)
    if correlate is spearman:  # the ranks of a shifted series are its ranks, shifted
        x, y = (np.asarray(stats.rankdata(series), dtype=np.float64) for series in (x, y))
    dx, dy = _standardise(x), _standardise(y)
    strengths = np.abs([np.roll(dx, shift) @ dy for shift in range(len(dx))])
    return Shifts(float(np.mean(strengths >= strengths[0] - ROUNDING)), 1 / len(x))


@formula(
    "drift/first-differences",
    "drift.spearman_step",
    "drift.spearman_step_p",
    "drift.pearson_step",
    "drift.pearson_step_p",
    "drift.steps",
    definition="Correlation of the steps of |mean| and of mean_cosine from each layer to the next, with its p; "
    "the step from an encoder's last layer to the decoder's first is excluded.",
    cost="from the table of layers",
    citation="Theodolite; differences remove a trend that both series share",
)
def first_differences(
    x: Array, y: Array, stacks: Sequence[object] | None = None, correlate: Correlate = spearman
) -> Correlation:
    """Return the correlation of first differences; `stacks` holds the stack of each layer. (layers,) each

    >>> found = first_differences(np.array([0.0, 1.0, 3.0, 4.5]), np.array([0.0, 2.0, 4.5, 6.6]))
    >>> found.coefficient
    1.0
    """
    dx, dy = layer_steps(x, y, stacks)
    found = correlate(dx, dy)
    if len(dx) < MIN_LAYERS:
        return found._replace(reason="fewer than three steps between layers")
    return found._replace(reason="the steps of one series are all equal" if found.reason else "")


def layer_steps(x: Array, y: Array, stacks: Sequence[object] | None = None) -> tuple[Array, Array]:
    """Return the differences of both series between adjacent layers of a stack, without those next to a NaN."""
    same = np.ones(max(len(x) - 1, 0), dtype=bool)
    if stacks is not None:
        same = np.array([one == other for one, other in pairwise(stacks)], dtype=bool)
    return drop_undefined(np.diff(x)[same], np.diff(y)[same])


def drop_undefined(x: Array, y: Array) -> tuple[Array, Array]:
    """Return both series without the positions where either is not finite."""
    known = np.isfinite(x) & np.isfinite(y)
    return x[known], y[known]


def _why_undefined(x: Array, y: Array) -> str:
    """Return why a correlation is undefined; empty if it is defined."""
    if len(x) < MIN_LAYERS:
        return "fewer than three layers"
    return "one of the two series is constant" if _constant(x) or _constant(y) else ""


def _constant(values: Array) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def _standardise(values: Array) -> Array:
    """Return the series centred and scaled to norm 1, so that the product of two is their correlation."""
    centred = _rescale(values) - _rescale(values).mean()
    return np.asarray(centred / np.linalg.norm(centred), dtype=np.float64)


def _rescale(values: Array) -> Array:
    """Return the series scaled to 0 ... 1, so that sums of squares neither overflow nor lose precision."""
    low = values.min()
    return np.asarray((values - low) / (values.max() - low), dtype=np.float64)
