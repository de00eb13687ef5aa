"""Directions of classes of pairs: cosine of two mean differences, its interval, and sign-flip tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
RESAMPLES = 2_000
NO_DIRECTION = "a mean difference of 0 has no direction"
ONE_PAIR = "one pair cannot be resampled"
EDGE = 1 - 1e-12
"""Cosines are limited to this before Fisher's transform, which is infinite at 1."""


class Grams(NamedTuple):
    """Dot products of the differences of two classes; all numbers here are computed from them."""

    aa: Array  # (pairs of a, pairs of a)
    ab: Array  # (pairs of a, pairs of b)
    bb: Array  # (pairs of b, pairs of b)


@formula(
    "cosine/mean-differences",
    "contrast.cosine",
    definition="Cosine of the mean of b - a over the pairs of one class with that of another.",
    cost="the dot products of all differences",
    citation="bert-spaces, table 7",
    error="bootstrap over the pairs of both classes, 2,000 resamples, on Fisher's scale (low, high)",
)
def cosine_of_means(grams: Grams) -> float:
    """Return the cosine of the two mean differences; NaN if a mean is 0.

    >>> one = np.ones((2, 2))
    >>> cosine_of_means(Grams(one, -one, one))
    -1.0
    """
    return float(_ratio(grams.ab.sum(), grams.aa.sum(), grams.bb.sum(), np.trace(grams.aa), np.trace(grams.bb)))


@formula(
    "cosine/mean-differences-corrected",
    "contrast.cosine_corrected",
    definition="mean_a . mean_b over the square root of both unbiased squared lengths, the mean of d_i . d_j "
    "over i != j: scatter within a class makes its mean too long and the plain cosine too small. May be outside "
    "[-1, 1].",
    cost="the dot products of all differences",
    citation="Theodolite; Spearman's correction for attenuation, 1904",
)
def corrected_cosine(grams: Grams) -> float:
    """Return the cosine corrected for scatter within classes; NaN if a corrected length is not positive."""
    lengths = [_squared_length(gram) for gram in (grams.aa, grams.bb)]
    if min(lengths) <= 0 or np.isnan(lengths).any():
        return float("nan")
    return float(grams.ab.mean() / np.sqrt(lengths[0] * lengths[1]))


def _squared_length(gram: Array) -> float:
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1))) if n > 1 else float("nan")


def bootstrap_interval(
    grams: Grams, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float, str | None]:
    """Return the 95% bootstrap interval of the cosine over pairs, and the reason if there is none.

    Pairs of both classes are drawn with replacement. The mean of a resample is noisier than the mean itself, so
    its cosines are too close to 0; only their standard deviation is used, about the observed cosine, on Fisher's
    atanh scale, where it does not depend on the cosine. Since few pairs estimate their standard deviation badly
    and a resample of n pairs has the variance of n - 1, the interval is widened by Student's quantile and by
    sqrt(n/(n - 1)) of the smaller class.
    """
    observed = cosine_of_means(grams)
    if np.isnan(observed):
        return float("nan"), float("nan"), NO_DIRECTION
    sizes = len(grams.aa), len(grams.bb)
    if min(sizes) < 2:
        return float("nan"), float("nan"), ONE_PAIR
    rng = np.random.default_rng(seed)
    a, b = (rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64) for n in sizes)
    cosines = _ratio(
        np.einsum("ri,ij,rj->r", a, grams.ab, b, optimize=True),
        np.einsum("ri,ij,rj->r", a, grams.aa, a, optimize=True),
        np.einsum("ri,ij,rj->r", b, grams.bb, b, optimize=True),
        np.trace(grams.aa),
        np.trace(grams.bb),
    )
    spread = np.arctanh(np.clip(cosines[np.isfinite(cosines)], -EDGE, EDGE)).std(ddof=1)
    centre = np.arctanh(np.clip(observed, -EDGE, EDGE))
    few = min(sizes)
    reach = float(stdtrit(few - 1, 0.975)) * np.sqrt(few / (few - 1)) * spread
    low, high = np.tanh([centre - reach, centre + reach])
    return float(low), float(high), None


def _ratio(ab: Array | float, aa: Array | float, bb: Array | float, size_a: float, size_b: float) -> Array:
    """Return ab/sqrt(aa bb); NaN where a length is 0 up to rounding of its sum of size `size_a` or `size_b`."""
    least = 1e-13
    lengths = np.where(np.asarray(aa) > least * size_a, aa, np.nan) * np.where(
        np.asarray(bb) > least * size_b, bb, np.nan
    )
    return np.asarray(np.clip(np.asarray(ab) / np.sqrt(lengths), -1.0, 1.0), dtype=np.float64)


MOST_EXACT = 2**14
"""Up to this number (15 pairs), all sign flips are used; beyond, SAMPLED flips are drawn."""
SAMPLED = 9_999
ROUNDING = 1e-9
"""Relative difference within which a flip ties with the observed value, since the order of a sum changes it."""


class Flips(NamedTuple):
    """Sign flips of pairs, the first without flips; `exact`: all flips, up to flipping every pair at once."""

    signs: Array  # (flips, pairs) of -1 and 1
    exact: bool

    @property
    def smallest_p(self) -> float:
        """Smallest p-value that is possible."""
        return 1.0 / len(self.signs)


def list_flips(pairs: int, *, seed: int = 0) -> Flips:
    """Return all sign flips of `pairs` pairs, or a seeded random draw if there are too many.

    Flipping all pairs at once changes no two-sided statistic, so the first pair is never flipped.

    >>> list_flips(3).signs.astype(int).tolist(), list_flips(3).smallest_p
    ([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]], 0.25)
    >>> list_flips(30).exact, list_flips(30).smallest_p
    (False, 0.0001)
    """
    free = max(pairs - 1, 0)
    if 2**free <= MOST_EXACT:
        bits = (np.arange(2**free)[:, None] >> np.arange(free)[::-1]) & 1
        first = np.ones((2**free, min(pairs, 1)))
        return Flips(np.hstack([first, 1.0 - 2.0 * bits]), exact=True)
    drawn = np.random.default_rng(seed).integers(0, 2, (SAMPLED, pairs)) * 2.0 - 1.0
    return Flips(np.vstack([np.ones(pairs), drawn]), exact=False)  # includes the observed one, so p is never 0


@formula(
    "sign-flip-p/length-of-mean",
    "contrast.classes.p",
    definition="Share of sign flips of the pairs for which |mean of the differences| is at least the observed "
    "one.",
    cost="2^(n - 1) or 10,000 products with the n x n matrix of dot products",
    citation="Fisher, The Design of Experiments, 1935",
)
def direction_p(gram: Array, ways: Flips) -> float:
    """Return the p-value of the length of the mean under random order within each pair; NaN without pairs.

    gram: (pairs, pairs), dot products of the differences.

    >>> direction_p(np.ones((3, 3)), list_flips(3))  # three equal differences: the smallest p of three pairs
    0.25
    """
    if not len(gram):
        return float("nan")
    lengths = np.einsum("wi,ij,wj->w", ways.signs, gram, ways.signs, optimize=True)
    return _share(lengths, float(np.trace(np.abs(gram))))


@formula(
    "sign-flip-p/cosine-of-means",
    "contrast.cosines.p",
    definition="For each of the two classes, the share of sign flips of its pairs for which |its mean . the "
    "other's mean| is at least the observed one; the larger of the two shares.",
    cost="2^(n - 1) or 10,000 sums over n pairs, twice",
    citation="Fisher, The Design of Experiments, 1935; Theodolite",
)
def cosine_p(between: Array, a: Flips, b: Flips) -> float:
    """Return the p-value of the cosine of two mean differences; NaN if a class has no pairs.

    The null hypothesis is that the order within the pairs of a class is unrelated to the direction of the other
    class; it is tested for both classes. Lengths are not used: flipping the pairs of a class that hardly varies
    reverses its mean but keeps its axis, and would never be significant.
    between: (pairs of a, pairs of b), dot products of the differences of one class with those of the other.
    """
    if not between.size:
        return float("nan")
    along_a, along_b = between.sum(axis=1), between.sum(axis=0)
    return max(_along(along_a, a), _along(along_b, b))


def _along(components: Array, ways: Flips) -> float:
    return _share(np.abs(ways.signs @ components), float(np.abs(components).sum()))


def _share(values: Array, scale: float) -> float:
    """Return the share of values at least as large as the first, including ties within rounding."""
    return float((values >= values[0] - ROUNDING * max(scale, 0.0)).mean())
