"""The spread within rare units that have no vector, estimated from a sample of units that have one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
MIN_STRATUM = 8
"""Sampled units that a stratum must have; one with fewer is joined with its neighbour."""


class SampledUnits(NamedTuple):
    """Rare units that have a vector. (units,) each"""

    n: Ints
    lengths: Array  # sum of |x|^2
    within: Array  # sum of |x - mean of the unit|^2
    weights: Array  # the inverse of the share of units that was sampled
    odd: Mask  # whether a position of the unit is massive at some layer


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
    "least twice: their spread within units is estimated. In strata of units with equally many occurrences, apart "
    "for units with a massive position, it is the sum of |x|^2, which is known of every unit, times the ratio "
    "of spread to |x|^2 in the units of the stratum that were sampled by hash.",
    cost="one float64 vector for each of about 4,096 sampled units; 24 bytes for each unit without a vector",
    citation="Cochran 1977, Sampling Techniques, chapter 6 (ratio estimates in strata)",
    error="combined with the jackknife error of v_within and v_between",
)
def estimated_share(n: Ints, positions: int) -> float:
    """Return the share of positions in units without a vector that occur at least twice. n: (units,)

    >>> estimated_share(np.array([1, 2, 3]), 50)
    0.1
    """
    return float(n[n > 1].sum() / max(positions, 1))


def estimate_within(n: Ints, lengths: Array, odd: Mask, sampled: SampledUnits) -> RareSpread:
    """Estimate the spread within units of which only n and the sum of |x|^2 are known. n, lengths, odd: (units,)

    A single occurrence has no spread. In each stratum, R = sum of w W / sum of w L over sampled units (w: weight,
    W: spread, L: sum of |x|^2), and a unit without a vector has the spread R L. The standard error is that of a
    ratio estimate with finite population correction: sqrt(sum w (w - 1) e^2 m/(m - 1)) with e = W - R L, of m
    units. If a stratum has too few sampled units even after joining neighbours, R of all units is used, and its
    error may be as large as the estimate.

    >>> none = np.zeros(8, bool)
    >>> units = SampledUnits(np.full(8, 2), np.full(8, 4.0), np.arange(8.0) / 4, np.full(8, 3.0), none)
    >>> found = estimate_within(np.full(16, 2), np.full(16, 4.0), np.zeros(16, bool), units)
    >>> found.within, round(found.se, 2)
    (14.0, 4.24)
    """
    by_unit, expansion, variance = np.zeros(len(n)), np.zeros(len(sampled.n)), 0.0
    whole = _ratio(sampled, sampled.n > 1)
    for kind in (False, True):
        for low, high in _strata(n[odd == kind], sampled.n[sampled.odd == kind]):
            target = (odd == kind) & (n >= low) & (n <= high)
            source = (sampled.odd == kind) & (sampled.n >= low) & (sampled.n <= high)
            known, size = float(lengths[target].sum()), int(source.sum())
            if not known:
                continue
            if size < 2:
                by_unit[target] = whole * lengths[target]
                variance += (max(whole, 1 - whole) * known) ** 2
                continue
            w, length, within = sampled.weights[source], sampled.lengths[source], sampled.within[source]
            ratio = _ratio(sampled, source)
            by_unit[target] = ratio * lengths[target]
            seen = float((w * length).sum())
            residual = (within - ratio * length) * (known + length.sum()) / max(seen, np.finfo(float).tiny)
            variance += float((w * np.maximum(w - 1, 0) * residual**2).sum()) * size / (size - 1)
            rest = float(((w - 1) * length).sum())
            expansion[source] = (w - 1) * known / rest if rest > 0 else known / max(length.sum(), 1e-300)
    single = sampled.n == 1
    if single.any():
        rest = (sampled.weights[single] - 1).sum()
        expansion[single] = (sampled.weights[single] - 1) * (n == 1).sum() / max(rest, 1e-300)
    return RareSpread(float(by_unit.sum()), float(np.sqrt(variance)), by_unit, expansion)


def _ratio(sampled: SampledUnits, of: Mask) -> float:
    """Return the spread of the sampled units as a share of their sum of |x|^2, both weighted; 0 without units."""
    length = float(sampled.weights[of] @ sampled.lengths[of])
    return float(sampled.weights[of] @ sampled.within[of]) / length if length > 0 else 0.0


def _strata(n: Ints, sampled: Ints) -> list[tuple[int, int]]:
    """Return ranges of n, from 2, that have enough sampled units each, or one range if there are too few.

    >>> _strata(np.array([1, 2, 3, 5]), np.repeat([2, 3, 4, 5], [9, 4, 4, 1]))
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
