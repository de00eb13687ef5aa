"""Directions of classes of pairs: the cosine of two mean differences, and how far other pairs would move it."""

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
"""A cosine is kept this far from 1 before Fisher's transform, which is infinite there."""


class Grams(NamedTuple):
    """Dot products of the differences of two classes: all that the numbers here need, whatever the width."""

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
    """Return the cosine; NaN where a mean is 0.

    >>> one = np.ones((2, 2))
    >>> cosine_of_means(Grams(one, -one, one))
    -1.0
    """
    return float(_ratio(grams.ab.sum(), grams.aa.sum(), grams.bb.sum(), np.trace(grams.aa), np.trace(grams.bb)))


@formula(
    "cosine/mean-differences-corrected",
    "contrast.cosine_corrected",
    definition="mean_a . mean_b over the root of both squared lengths without bias, the mean of d_i . d_j over "
    "i != j: scatter within a class makes its mean too long and so the plain cosine too small. May leave [-1, 1].",
    cost="the dot products of all differences",
    citation="Theodolite; Spearman's correction for attenuation, 1904",
)
def corrected_cosine(grams: Grams) -> float:
    """Return the cosine freed of the scatter in each mean's length; NaN where a class has no length beyond it."""
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
    """Return the 95% interval of the cosine when other pairs might have been written, and why there is none.

    Pairs of both classes are drawn with replacement. A resample's mean is noisier than the mean itself, so its
    cosines lie too near 0; only their spread is taken, about the observed cosine, on the scale of atanh, where it
    does not depend on where one is. As few pairs tell their own spread badly, and a resample of n of them spreads
    by n - 1, Student's quantile and sqrt(n/(n - 1)) of the smaller class widen it.
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
    """Return ab/sqrt(aa bb), NaN where a length is 0 but for rounding; `size` is what it was summed from."""
    least = 1e-13
    lengths = np.where(np.asarray(aa) > least * size_a, aa, np.nan) * np.where(
        np.asarray(bb) > least * size_b, bb, np.nan
    )
    return np.asarray(np.clip(np.asarray(ab) / np.sqrt(lengths), -1.0, 1.0), dtype=np.float64)
