"""How contextual the vectors are: self-similarity, intra-sentence similarity, maximum explainable variance.

Ethayarajh (2019), How Contextual are Contextualized Word Representations?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PAPER = "Ethayarajh 2019, How Contextual are Contextualized Word Representations?"
OFTEN = 5
"""His words occur in at least five contexts."""
CHANCES = 16  # random sets of one size whose explainable variance is averaged


@formula(
    "self-similarity/unit",
    "tokens.self_similarity",
    definition="Mean of cos(x, y) over all ordered pairs of distinct occurrences of one unit: "
    "(|sum x/|x||^2 - n)/(n (n - 1)); undefined at n = 1.",
    cost="exact; one float64 vector a unit more, kept with --contextuality",
    citation=PAPER + ", definition 1",
)
def self_similarity(n: NDArray[np.int64], total: Array) -> Array:
    """Return every unit's self-similarity, NaN for fewer than two vectors. (units,), (units, dim) -> (units,)

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
    "counting once; adjusted: less the mean cosine over all pairs.",
    cost="exact; from the sums by unit, kept with --contextuality",
    citation=PAPER + ", definition 1",
    error="standard error over units (self_similarity_se)",
)
def mean_over_units(values: Array, often: NDArray[np.bool_]) -> tuple[float, float, int]:
    """Return the mean over these units, its standard error and how many they are. (units,), (units,)

    >>> mean_over_units(np.array([0.25, 0.75, 9.0]), np.array([True, True, False]))
    (0.5, 0.25, 2)
    """
    return mean_and_error(values[often])


def mean_and_error(values: Array) -> tuple[float, float, int]:
    """Return the mean, its standard error and the count of what is not NaN; NaN where there is too little."""
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
    "least two; adjusted: less the mean cosine over all pairs.",
    cost="exact; three numbers, kept with --contextuality",
    citation=PAPER + ", definition 2; a document that fits the model is one window",
    error="standard error over windows (intra_similarity_se)",
)
def mean_of_sums(n: int, total: float, squares: float) -> tuple[float, float]:
    """Return the mean and its standard error from n, the sum and the sum of squares; NaN where undefined.

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
    definition="Share of the variance of a unit's occurrences that lies along their first principal component, "
    "averaged over units with at least 5 occurrences kept (at most 32 of at most 512 units); adjusted: less the "
    "SVD anisotropy of everything, where the paper takes the share of random words. mev_chance is the same of as "
    "many vectors of any units: few vectors alone make the share large.",
    cost="from a hash-chosen set of occurrences, kept with --contextuality",
    citation=PAPER
    + ", definition 3 (its formula does not say whether to centre; of its released code one version does)",
    error="standard error over units (mev_se)",
)
def explainable_variance(vectors: Array) -> float:
    """Return the first component's share of the variance, NaN where nothing varies. (occurrences, dim)

    >>> round(explainable_variance(np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 8.0]])), 12)
    1.0
    """
    centred = vectors - vectors.mean(axis=0)
    gram = centred @ centred.T  # few occurrences, many coordinates
    whole = float(np.trace(gram))
    size = float(np.square(vectors).sum())
    if whole <= 1e-14 * size:  # what rounding alone leaves
        return float("nan")
    return float(np.linalg.eigvalsh(gram)[-1] / whole)


def by_chance(sizes: NDArray[np.int64], sample: Array) -> float:
    """Return what sets of these sizes would give if drawn from the sample. (sets,), (rows, dim)

    The rows of a sample come in the order of a hash, so stretches of it are random sets.
    """
    counts = dict(zip(*np.unique(sizes, return_counts=True), strict=True))
    total = weight = 0.0
    for size, count in counts.items():
        starts = range(0, len(sample) - size + 1, size)[:CHANCES]
        values = np.array([explainable_variance(sample[start : start + size]) for start in starts])
        if np.isfinite(values).any():
            total += count * float(np.nanmean(values))
            weight += count
    return total / weight if weight else float("nan")
