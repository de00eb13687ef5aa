"""Directions of classes of pairs: cosine of two mean differences, its interval, sign-flip tests, WEAT and SEAT."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
RESAMPLES = 2_000
NO_DIRECTION = "a mean difference of 0 has no direction"
ONE_PAIR = "one pair cannot be resampled"
ONE_CLUSTER = "only one word or template"
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
    grams: Grams,
    clusters: tuple[Sequence[object], Sequence[object]] | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, float, str | None]:
    """Return the 95% bootstrap interval of the cosine over pairs, and the reason if there is none.

    Pairs of both classes are drawn with replacement, or clusters of pairs: those with the same words, or the same
    template (`clusters` has one label per pair of each class). The mean of a resample is noisier than the mean
    itself, so its cosines are too close to 0; only their standard deviation is used, about the observed cosine, on
    Fisher's atanh scale, where it does not depend on the cosine. Since few pairs estimate their standard deviation
    badly and a resample of n pairs has the variance of n - 1, the interval is widened by Student's quantile and by
    sqrt(n/(n - 1)) of the class with fewer pairs or clusters.
    """
    observed = cosine_of_means(grams)
    if np.isnan(observed):
        return float("nan"), float("nan"), NO_DIRECTION
    labels = clusters or (range(len(grams.aa)), range(len(grams.bb)))
    codes = [np.array([list(dict.fromkeys(side)).index(label) for label in side]) for side in labels]
    sizes = [int(code.max(initial=-1)) + 1 for code in codes]
    if min(sizes) < 2:
        return float("nan"), float("nan"), ONE_CLUSTER if min(map(len, codes)) > 1 else ONE_PAIR
    rng = np.random.default_rng(seed)
    drawn = (rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64) for n in sizes)
    a, b = (counts[:, code] for counts, code in zip(drawn, codes, strict=True))
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
    """Return the p-value of the length of the mean under random order within each pair; NaN for fewer than two.

    gram: (pairs, pairs), dot products of the differences.

    >>> direction_p(np.ones((3, 3)), list_flips(3))  # three equal differences: the smallest p of three pairs
    0.25
    """
    if len(gram) < 2:  # one pair alone has one order: nothing to compare it with
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
    """Return the p-value of the cosine of two mean differences; NaN if a class has fewer than two pairs.

    The null hypothesis is that the order within the pairs of a class is unrelated to the direction of the other
    class; it is tested for both classes. Lengths are not used: flipping the pairs of a class that hardly varies
    reverses its mean but keeps its axis, and would never be significant.
    between: (pairs of a, pairs of b), dot products of the differences of one class with those of the other.
    """
    if min(between.shape) < 2:
        return float("nan")
    along_a, along_b = between.sum(axis=1), between.sum(axis=0)
    return max(_along(along_a, a), _along(along_b, b))


def _along(components: Array, ways: Flips) -> float:
    return _share(np.abs(ways.signs @ components), float(np.abs(components).sum()))


def _share(values: Array, scale: float) -> float:
    """Return the share of values at least as large as the first, including ties within rounding."""
    return float((values >= values[0] - ROUNDING * max(scale, 0.0)).mean())


@formula(
    "random-swap-p",
    "contrast.reference_p",
    definition="(1 + number of cosines of random swaps at least as far from 0)/(1 + number of random swaps). A "
    "random swap has random words in place of the exchanged ones, in the sentences of the class drawn with "
    "replacement.",
    cost="one pass of all random sentences, 30 versions of each class by default",
    citation="Theodolite",
)
def random_swap_p(cosine: float, reference: Array) -> float:
    """Return the p-value of a cosine against those of random swaps; NaN without any. reference: (swaps,)

    >>> random_swap_p(-0.5, np.array([0.1, -0.2, 0.6]))
    0.5
    """
    if np.isnan(cosine) or not len(reference):
        return float("nan")
    return float((1 + (np.abs(reference) >= abs(cosine)).sum()) / (1 + len(reference)))


class Association(NamedTuple):
    """The effect size of an association test, and its p-value."""

    effect: float
    p: float


@formula(
    "association/effect-size",
    "contrast.seat",
    "contrast.seat_p",
    "contrast.weat",
    "contrast.weat_p",
    definition="d = (mean over x of s - mean over y of s)/(standard deviation of s over x and y), with s(w) the "
    "mean cosine of w with a minus that with b; x, y: first and second sides of one class, a, b: of the other. p: "
    "share of the ways to divide x and y into equal parts whose difference of means is at least as far from 0. "
    "seat: of sentence vectors; weat: of the exchanged words in the input table.",
    cost="all cosines, and up to 9,999 divisions",
    citation="Caliskan, Bryson and Narayanan 2017; May et al. 2019",
)
def association(x: Array, y: Array, a: Array, b: Array, *, seed: int = 0) -> Association:
    """Return WEAT's effect size with a two-sided permutation p; NaN for fewer than two targets or equal ones.

    x, y: (targets, dim) of the same size; a, b: (attributes, dim)
    """
    undefined = Association(float("nan"), float("nan"))
    if len(x) < 2 or not len(a) or not len(b):
        return undefined
    targets, one, other = (_unit(rows) for rows in (np.concatenate([x, y]), a, b))
    scores = (targets @ one.T).mean(axis=1) - (targets @ other.T).mean(axis=1)
    spread = float(scores.std(ddof=1))
    if not spread > ROUNDING * float(np.abs(scores).max()):
        return undefined
    n, total = len(x), float(scores.sum())
    halves = list_halves(n, seed=seed)
    gaps = np.abs(2 * scores[halves].sum(axis=1) - total)  # n times the difference of the means
    effect = float((scores[:n].mean() - scores[n:].mean()) / spread)
    return Association(effect, _share(gaps, float(np.abs(scores).sum())))


def list_halves(n: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the ways to choose n of 2n, the first n first; all of them, or a seeded draw. (ways, n)

    >>> list_halves(2).tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    if comb(2 * n, n) <= MOST_EXACT:
        return np.array(list(combinations(range(2 * n), n)), dtype=np.int64)
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(2 * n), (SAMPLED, 1)), axis=1)[:, :n]
    return np.vstack([np.arange(n), drawn])


def _unit(rows: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
