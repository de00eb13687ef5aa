"""Contextuality: self-similarity, intra-sentence similarity and maximum explainable variance.

Ethayarajh (2019), How Contextual are Contextualized Word Representations?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PAPER = "Ethayarajh 2019, How Contextual are Contextualized Word Representations?"
MIN_OCCURRENCES = 5
"""The paper keeps words that occur in at least five contexts."""
RANDOM_SETS = 16  # random sets of each size, whose explainable variance is averaged


@formula(
    "self-similarity/unit",
    "tokens.self_similarity",
    definition="Mean of cos(x, y) over all ordered pairs of distinct occurrences of one unit: "
    "(|sum x/|x||^2 - n)/(n (n - 1)); undefined at n = 1.",
    cost="exact; one more float64 vector per unit; computed with --contextuality",
    citation=PAPER + ", definition 1",
)
def self_similarity(n: NDArray[np.int64], total: Array) -> Array:
    """Return (|total|^2 - n)/(n (n - 1)) of every unit; NaN for n < 2. (units,), (units, dim) -> (units,)

    >>> self_similarity(np.array([2, 1]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([ 0., nan])
    """
    squared = np.einsum("ij,ij->i", total, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n > 1, (squared - n) / (n * (n - 1.0)), np.nan)


@formula(
    "self-similarity/mean",
    "self_similarity",
    "self_similarity_adjusted",
    "self_similarity_units",
    definition="Mean of self-similarity/unit over the units that occur at least 5 times and are not special, each "
    "counted once; adjusted: minus the mean cosine over all pairs.",
    cost="exact; from the sums by unit; computed with --contextuality",
    citation=PAPER + ", definition 1",
    error="standard error over units (self_similarity_se)",
)
def mean_over_units(values: Array, often: NDArray[np.bool_]) -> tuple[float, float, int]:
    """Return the mean over the chosen units, its standard error and their number. (units,), (units,)

    >>> mean_over_units(np.array([0.25, 0.75, 9.0]), np.array([True, True, False]))
    (0.5, 0.25, 2)
    """
    return mean_and_error(values[often])


def mean_and_error(values: Array) -> tuple[float, float, int]:
    """Return the mean, its standard error and the number of values that are not NaN; NaN if there are too few."""
    kept = values[np.isfinite(values)]
    if not len(kept):
        return float("nan"), float("nan"), 0
    error = kept.std(ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else np.nan
    return float(kept.mean()), float(error), len(kept)


@formula(
    "intra-sentence-similarity/windows",
    "intra_similarity",
    "intra_similarity_adjusted",
    "intra_similarity_windows",
    definition="Mean over windows of the mean of cos(x, mean of the window's x) over its positions; windows of at "
    "least two positions; adjusted: minus the mean cosine over all pairs.",
    cost="exact; three numbers; computed with --contextuality",
    citation=PAPER + ", definition 2; a document that fits the model is one window",
    error="standard error over windows (intra_similarity_se)",
)
def mean_of_sums(n: int, total: float, squares: float) -> tuple[float, float]:
    """Return the mean and its standard error from n, the sum and the sum of squares; NaN if undefined.

    >>> mean_of_sums(2, 1.0, 0.5)
    (0.5, 0.0)
    """
    if not n:
        return float("nan"), float("nan")
    mean = total / n
    variance = max(squares / n - mean**2, 0.0)
    return mean, float(np.sqrt(variance / (n - 1))) if n > 1 else float("nan")


@formula(
    "mev/centred",
    "mev",
    "mev_adjusted",
    "mev_chance",
    "mev_units",
    definition="Share of the variance of a unit's occurrences along their first principal component, averaged "
    "over units with at least 5 occurrences kept (at most 32 of at most 512 units); adjusted: minus the SVD "
    "anisotropy of all positions, where the paper subtracts the share of random words. mev_chance is the same "
    "for as many vectors of any units, since the share is large whenever there are few vectors.",
    cost="from a hash-chosen set of occurrences; computed with --contextuality",
    citation=PAPER
    + ", definition 3 (its formula does not say whether to centre; of its released code one version does)",
    error="standard error over units (mev_se)",
)
def explainable_variance(vectors: Array) -> float:
    """Return the first principal component's share of the variance; NaN where nothing varies. (occurrences, dim)

    >>> round(explainable_variance(np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 8.0]])), 12)
    1.0
    """
    centred = vectors - vectors.mean(axis=0)
    gram = centred @ centred.T  # few occurrences, many coordinates
    whole = float(np.trace(gram))
    size = float(np.square(vectors).sum())
    if whole <= 1e-14 * size:  # only rounding is left
        return float("nan")
    return float(np.linalg.eigvalsh(gram)[-1] / whole)


def chance_explainable_variance(sizes: NDArray[np.int64], sample: Array) -> float:
    """Return the mean explainable variance of random sets of these sizes. (sets,), (rows, dim)

    The rows of a sample are in the order of a hash, so contiguous chunks of it are random sets.
    """
    counts = dict(zip(*np.unique(sizes, return_counts=True), strict=True))
    total = weight = 0.0
    for size, count in counts.items():
        starts = range(0, len(sample) - size + 1, size)[:RANDOM_SETS]
        values = np.array([explainable_variance(sample[start : start + size]) for start in starts])
        if np.isfinite(values).any():
            total += count * float(np.nanmean(values))
            weight += count
    return total / weight if weight else float("nan")
