"""The drift test: does the mean cosine of the layers follow the norm of their mean?

Layers are few and each is made from the one before, so that two series over them agree by chance far more often
than a p-value for independent points says. Two checks that know of it stand beside: all circular shifts of one
series against the other, and the correlation of the steps from layer to layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PAPER = "Godey et al. 2023, Is Anisotropy Inherent to Transformers?"
FEWEST = 3
ROUNDING = 1e-12
"""Relative: a series that varies less is constant, and correlations that differ less are equal."""


class Correlation(NamedTuple):
    """A coefficient with its two-sided p-value; NaN for a reason where undefined."""

    coefficient: float
    p: float
    reason: str = ""


class Shifts(NamedTuple):
    """The p-value over all circular shifts, and the smallest that so many layers can give."""

    p: float
    floor: float
    reason: str = ""


Correlate = Callable[[Array, Array], Correlation]


@formula(
    "drift/spearman",
    "drift.spearman",
    "drift.spearman_p",
    definition="Spearman's rank correlation over layers of |mean| = sqrt(m) and mean_cosine; p two-sided from "
    "Student's t with layers - 2 degrees of freedom, which takes layers for independent.",
    cost="from the table of layers",
    citation=f"{PAPER}, figure 5",
)
def spearman(x: Array, y: Array) -> Correlation:
    """Return Spearman's correlation of two series; pairs with a NaN are left out. (layers,) each

    >>> spearman(np.array([1.0, 2.0, 30.0]), np.array([0.1, 0.2, 0.3])).coefficient
    1.0
    """
    x, y = complete(x, y)
    reason = _undefined(x, y)
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
    """Return Pearson's correlation of two series; pairs with a NaN are left out. (layers,) each

    >>> pearson(np.array([1.0, 2.0, 3.0]), np.array([3.0, 3.0, 3.0])).reason
    'one of the two series is constant'
    """
    x, y = complete(x, y)
    reason = _undefined(x, y)
    if reason:
        return Correlation(float("nan"), float("nan"), reason)
    found = stats.pearsonr(_scaled(x), _scaled(y))
    return Correlation(float(found.statistic), float(found.pvalue))


@formula(
    "drift/circular-shift",
    "drift.spearman_shift_p",
    "drift.pearson_shift_p",
    "drift.shift_floor",
    definition="Share of the circular shifts of |mean| along the layers, none among them, whose correlation with "
    "mean_cosine is at least as strong, of either sign; no smaller than 1/layers, so never below 0.05 for fewer "
    "than 20 layers.",
    cost="from the table of layers; layers^2",
    citation="Theodolite; a shift keeps how each series hangs together",
)
def circular_shifts(x: Array, y: Array, correlate: Correlate = spearman) -> Shifts:
    """Return the share of all shifts that correlate as strongly as the series do unshifted. (layers,) each

    >>> circular_shifts(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    Shifts(p=0.25, floor=0.25, reason='')
    """
    x, y = complete(x, y)
    reason = _undefined(x, y)
    if reason:
        return Shifts(float("nan"), float("nan"), reason)
    if correlate is spearman:  # the ranks of a shifted series are its ranks, shifted
        x, y = (np.asarray(stats.rankdata(series), dtype=np.float64) for series in (x, y))
    dx, dy = _standard(x), _standard(y)
    strengths = np.abs([np.roll(dx, shift) @ dy for shift in range(len(dx))])
    return Shifts(float(np.mean(strengths >= strengths[0] - ROUNDING)), 1 / len(x))


@formula(
    "drift/first-differences",
    "drift.spearman_step",
    "drift.spearman_step_p",
    "drift.pearson_step",
    "drift.pearson_step_p",
    "drift.steps",
    definition="Correlation of the steps of |mean| and of mean_cosine from each layer to the next, with its p; no "
    "step from an encoder's last layer to the decoder's first.",
    cost="from the table of layers",
    citation="Theodolite; differences take away what both series share as a trend",
)
def first_differences(
    x: Array, y: Array, stacks: Sequence[object] | None = None, correlate: Correlate = spearman
) -> Correlation:
    """Return the correlation of first differences; `stacks` says of each layer which it belongs to. (layers,) each

    >>> found = first_differences(np.array([0.0, 1.0, 3.0, 4.5]), np.array([0.0, 2.0, 4.5, 6.6]))
    >>> found.coefficient
    1.0
    """
    dx, dy = steps(x, y, stacks)
    found = correlate(dx, dy)
    if len(dx) < FEWEST:
        return found._replace(reason="fewer than three steps between layers")
    return found._replace(reason="the steps of one series are all equal" if found.reason else "")


def steps(x: Array, y: Array, stacks: Sequence[object] | None = None) -> tuple[Array, Array]:
    """Return the differences of both series between neighbours of one stack; those next to a NaN are left out."""
    same = np.ones(max(len(x) - 1, 0), dtype=bool)
    if stacks is not None:
        same = np.array([one == other for one, other in pairwise(stacks)], dtype=bool)
    return complete(np.diff(x)[same], np.diff(y)[same])


def complete(x: Array, y: Array) -> tuple[Array, Array]:
    """Return both series without the places where either is not finite."""
    known = np.isfinite(x) & np.isfinite(y)
    return x[known], y[known]


def _undefined(x: Array, y: Array) -> str:
    """Return why a correlation is undefined, empty where it is not."""
    if len(x) < FEWEST:
        return "fewer than three layers"
    return "one of the two series is constant" if _constant(x) or _constant(y) else ""


def _constant(values: Array) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def _standard(values: Array) -> Array:
    """Return the series centred and of norm 1, so that a product of two is their correlation."""
    centred = _scaled(values) - _scaled(values).mean()
    return np.asarray(centred / np.linalg.norm(centred), dtype=np.float64)


def _scaled(values: Array) -> Array:
    """Return the series from 0 to 1, so that sums of squares neither overflow nor lose an offset."""
    low = values.min()
    return np.asarray((values - low) / (values.max() - low), dtype=np.float64)
