"""The spread within rare units that have no vector, estimated from a sample of units that have one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
MIN_STRATUM = 8
"""Sampled units that a stratum must have; one with fewer is joined with its neighbour."""
MIN_CLASS = 16
"""Sampled units that each class of Q in a stratum must have."""
MAX_CLASSES = 4
"""Classes of Q in a stratum."""


class RareLengths(NamedTuple):
    """What is known of every rare unit. (units,) each"""

    n: Ints
    lengths: Array  # sum of |x|^2
    massive_n: Ints  # positions whose norm is massive
    massive_lengths: Array  # sum of |x|^2 over these
    odd: Mask  # whether a position of the unit is massive at some layer

    @property
    def massive_spread(self) -> Array:
        """The spread within the units if massive positions are all equal and the others 0."""
        return self.massive_lengths * (1 - self.massive_n / np.maximum(self.n, 1))

    @property
    def size(self) -> Array:
        """The scale of the spread beyond that: |x|^2 of other positions, and what massive ones may differ by."""
        return self._others + self.massive_lengths * np.maximum(self.massive_n - 1, 0) / np.maximum(self.n, 1)

    @property
    def largest_products(self) -> Array:
        """The most that products between positions can change the spread of a unit with massive positions."""
        n = np.maximum(self.n, 1)
        cross = np.sqrt((self.n - self.massive_n) * self._others * self.massive_n * self.massive_lengths)
        return np.asarray(
            (2 * cross + np.maximum(self.massive_n - 1, 0) * self.massive_lengths) / n + self._others
        )

    @property
    def _others(self) -> Array:
        return np.maximum(self.lengths - self.massive_lengths, 0.0)


class SampledUnits(NamedTuple):
    """Rare units that have a vector. (units,) each"""

    known: RareLengths
    within: Array  # sum of |x - mean of the unit|^2
    weights: Array  # the inverse of the share of units that was sampled


class RareSpread(NamedTuple):
    """The spread within the units that have no vector: in total with its standard error, and by unit."""

    within: float  # sum over positions of |x - mean of the unit|^2
    se: float
    by_unit: Array  # (units,) what the estimate assigns to each unit
    expansion: Array  # (sampled,) how many positions without a vector a position of each sampled unit stands for


@formula(
    "v-within/rare",
    "v_within_estimated_share",
    definition="The share of positions whose units have no vector (n < min_count in the corpus) and occur at "
    "least twice: their spread within units is estimated. In strata of units with about equally many occurrences "
    "and about equal Q, it is the sum of |x|^2, known of every unit, times the ratio of spread to |x|^2 in "
    "the units of the stratum that were sampled by hash. Units with a massive position are strata of their own. "
    "Units at the start of a window, which may be sinks, have a vector, or are sampled apart if they are many.",
    cost="one float64 vector for each of about 4,096 sampled units, and for up to as many that occur at the start "
    "of a window; 24 bytes for each unit without a vector",
    citation="Cochran 1977, Sampling Techniques, chapter 6 (ratio estimates in strata)",
    error="combined with the jackknife error of v_within and v_between",
)
def estimated_share(n: Ints, positions: int) -> float:
    """Return the share of positions in units without a vector that occur at least twice. n: (units,)

    >>> estimated_share(np.array([1, 2, 3]), 50)
    0.1
    """
    return float(n[n > 1].sum() / max(positions, 1))


def estimate_within(units: RareLengths, sampled: SampledUnits) -> RareSpread:
    """Estimate the spread within units of which only numbers of positions and sums of |x|^2 are known.

    A single occurrence has no spread. If b of the n positions of a unit are massive, with the sum B of |x|^2, they
    are about equal and give the spread K = B (1 - b/n); what is estimated is E = W - K (W: spread), in proportion
    to A, the sum of |x|^2 of the other positions, plus B (b - 1)/n. In each stratum, R = sum of (w - 1) E / sum of
    (w - 1) A over sampled units (w: weight), and a unit without a vector has the spread K + R A. The standard
    error is that of a ratio estimate with finite population correction: sqrt(sum w (w - 1) e^2 m/(m - 1)) with
    e = E - R A, of m units. If a stratum has too few sampled units even after joining neighbours, R of all units
    is used, and its error covers whatever the products of positions may be.

    >>> none = np.zeros(8)
    >>> units = RareLengths(np.full(8, 2), np.full(8, 4.0), none.astype(int), none, none.astype(bool))
    >>> others = RareLengths(*(np.tile(part, 2) for part in units))
    >>> found = estimate_within(others, SampledUnits(units, np.arange(8.0) / 4, np.full(8, 3.0)))
    >>> found.within, round(found.se, 2)
    (14.0, 4.24)
    """
    own = sampled.known
    by_unit, expansion, variance = np.zeros(len(units.n)), np.zeros(len(own.n)), 0.0
    beyond, beyond_w = sampled.within - own.massive_spread, sampled.weights - 1
    ratio_of_all = _ratio(beyond, own.size, beyond_w, (own.n > 1) & ~own.odd)
    for target, source in _strata(units, own):
        known, size = float(units.size[target].sum()), int(source.sum())
        enough = size >= (MIN_STRATUM if units.odd[target].any() else 2)
        ratio = _ratio(beyond, own.size, beyond_w, source) if enough else ratio_of_all
        by_unit[target] = units.massive_spread[target] + ratio * units.size[target]
        if not enough:
            variance += float(units.largest_products[target].sum() / 2) ** 2
            continue
        w, seen = sampled.weights[source], float(beyond_w[source] @ own.size[source])
        scale = known / seen if seen > 0 else 1.0
        residual = (beyond[source] - ratio * own.size[source]) * scale
        variance += float((w * (w - 1) * residual**2).sum()) * size / (size - 1)
        expansion[source] = beyond_w[source] * scale
    single = own.n == 1
    expansion[single] = beyond_w[single] * (units.n == 1).sum() / max(beyond_w[single].sum(), 1e-300)
    return RareSpread(float(by_unit.sum()), float(np.sqrt(variance)), by_unit, expansion)


def _ratio(spread: Array, size: Array, weights: Array, of: Mask) -> float:
    """Return the weighted sum of the spread as a share of that of the size; 0 without units."""
    below = float(weights[of] @ size[of])
    return float(weights[of] @ spread[of]) / below if below > 0 else 0.0


def _strata(units: RareLengths, sampled: RareLengths) -> Iterator[tuple[Mask, Mask]]:
    """Yield the units of each stratum, those without a vector and those that were sampled. (units,), (sampled,)

    Strata are ranges of n, apart for units with a massive position; large ones are divided by quantiles of Q.
    """
    q, sampled_q = (of.lengths / np.maximum(of.n, 1) for of in (units, sampled))
    for kind in (False, True):
        for low, high in _ranges(units.n[units.odd == kind], sampled.n[sampled.odd == kind]):
            target = (units.odd == kind) & (units.n >= low) & (units.n <= high)
            source = (sampled.odd == kind) & (sampled.n >= low) & (sampled.n <= high)
            classes = 1 if kind else min(max(int(source.sum()) // MIN_CLASS, 1), MAX_CLASSES)
            edges = np.quantile(sampled_q[source], np.arange(1, classes) / classes) if classes > 1 else np.zeros(0)
            of_target, of_source = (np.searchsorted(edges, each) for each in (q, sampled_q))
            for number in np.unique(of_target[target]):
                yield target & (of_target == number), source & (of_source == number)


def _ranges(n: Ints, sampled: Ints) -> list[tuple[int, int]]:
    """Return ranges of n, from 2, that have enough sampled units each, or one range if there are too few.

    >>> _ranges(np.array([1, 2, 3, 5]), np.repeat([2, 3, 4, 5], [9, 4, 4, 1]))
    [(2, 2), (3, 5)]
    """
    top = int(max(n.max(initial=1), sampled.max(initial=1)))
    if top < 2:
        return []
    counts = np.bincount(sampled, minlength=top + 1)
    ranges, low = [], 2
    for high in range(2, top + 1):
        if counts[low : high + 1].sum() >= MIN_STRATUM:
            ranges.append((low, high))
            low = high + 1
    if low <= top:
        ranges = [*ranges[:-1], (ranges[-1][0] if ranges else low, top)]
    return ranges
