"""Sign-flip tests: were the two sides of every pair put there at random, how often would this much come out?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
MOST_EXACT = 2**14
"""All ways to flip are tried up to so many (15 pairs); beyond, as many as SAMPLED are drawn."""
SAMPLED = 9_999
ROUNDING = 1e-9
"""A flip within this share of the observed value ties with it: sums in another order differ by rounding alone."""


class Flips(NamedTuple):
    """Ways to flip pairs, the first as they are; `exact`: all there are, up to flipping every pair at once."""

    signs: Array  # (ways, pairs) of -1 and 1
    exact: bool

    @property
    def smallest_p(self) -> float:
        """No data could give less than this."""
        return 1.0 / len(self.signs)


def flips(pairs: int, *, seed: int = 0) -> Flips:
    """Return every way to flip `pairs` pairs, or a seeded draw of ways where there are too many.

    Flipping all pairs at once changes no two-sided statistic, so the first pair always stays as it is.

    >>> flips(3).signs.astype(int).tolist(), flips(3).smallest_p
    ([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]], 0.25)
    >>> flips(30).exact, flips(30).smallest_p
    (False, 0.0001)
    """
    free = max(pairs - 1, 0)
    if 2**free <= MOST_EXACT:
        bits = (np.arange(2**free)[:, None] >> np.arange(free)[::-1]) & 1
        first = np.ones((2**free, min(pairs, 1)))
        return Flips(np.hstack([first, 1.0 - 2.0 * bits]), exact=True)
    drawn = np.random.default_rng(seed).integers(0, 2, (SAMPLED, pairs)) * 2.0 - 1.0
    return Flips(np.vstack([np.ones(pairs), drawn]), exact=False)  # the observed one counts: p is never 0


@formula(
    "sign-flip-p/length-of-mean",
    "contrast.classes.p",
    definition="Share of the ways to flip pairs for which |mean of the differences| is at least the observed one.",
    cost="2^(n - 1) or 10,000 products with the n x n matrix of dot products",
    citation="Fisher, The Design of Experiments, 1935",
)
def direction_p(gram: Array, ways: Flips) -> float:
    """Return how surprising the mean's length is if the order within each pair means nothing; NaN without pairs.

    gram: (pairs, pairs), dot products of the differences.

    >>> direction_p(np.ones((3, 3)), flips(3))  # three equal differences: as far as three pairs can go
    0.25
    """
    if not len(gram):
        return float("nan")
    lengths = np.einsum("wi,ij,wj->w", ways.signs, gram, ways.signs, optimize=True)
    return _share(lengths, float(np.trace(np.abs(gram))))


@formula(
    "sign-flip-p/cosine-of-means",
    "contrast.cosines.p",
    definition="Of the two classes in turn, the share of the ways to flip its pairs for which |its mean . the "
    "other's mean| is at least the observed one; the larger of the two shares.",
    cost="2^(n - 1) or 10,000 sums over n pairs, twice",
    citation="Fisher, The Design of Experiments, 1935; Theodolite",
)
def cosine_p(between: Array, a: Flips, b: Flips) -> float:
    """Return how surprising the cosine of two classes' means is; NaN where a class has no pairs.

    Each class must point along the other's mean by itself, or the p of that class is large: the null is that the
    order within its pairs says nothing about the other's direction. Lengths are left out: flipping the pairs of a
    class that hardly varies turns its mean around and leaves its direction, and would never be surprising.
    between: (pairs of a, pairs of b), dot products of the differences of one class with those of the other.
    """
    if not between.size:
        return float("nan")
    along_a, along_b = between.sum(axis=1), between.sum(axis=0)
    return max(_along(along_a, a), _along(along_b, b))


def _along(components: Array, ways: Flips) -> float:
    return _share(np.abs(ways.signs @ components), float(np.abs(components).sum()))


def _share(values: Array, scale: float) -> float:
    """Return the share at least as large as the first, ties by rounding included."""
    return float((values >= values[0] - ROUNDING * max(scale, 0.0)).mean())
