"""How far two clouds of vectors are apart: cross-validated linear accuracy and energy distance.

scipy.stats.energy_distance is for scalars; the distance of vectors is written here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
Labels = NDArray[np.bool_]
FOLDS = 5
RIDGE = 0.1
"""Ridge penalty per vector, for standardised coordinates; enough for more coordinates than vectors."""


class Accuracy(NamedTuple):
    """Share of held-out vectors classified correctly, its 95% interval and its p-value."""

    value: float
    low: float
    high: float
    p: float


def assign_folds(size: int, *, seed: int = 0, count: int = FOLDS) -> NDArray[np.int64]:
    """Return a random fold for each of `size` vectors of one class, in folds of nearly equal size. (size,)"""
    return np.random.default_rng(seed).permutation(np.arange(size) % count)


def assign_source_folds(source: NDArray[np.int64], *, seed: int = 0) -> NDArray[np.int64]:
    """Return a fold for each vector of one class, the same for all vectors of a source. (n,) -> (n,)"""
    _, code = np.unique(source, return_inverse=True)
    return assign_folds(int(code.max(initial=-1)) + 1, seed=seed)[code]


def permute_sources(
    labels: Labels, fold: NDArray[np.int64], source: NDArray[np.int64], count: int, *, seed: int = 0
) -> Labels:
    """Return labels permuted between sources within each fold: vectors of one source keep one label. (count, n)

    Vectors of one source resemble each other. Permuted one by one, they would be divided between the classes,
    which makes permuted classes more alike than two classes of other sources, and p too small.
    """
    _, first, code = np.unique(source, return_index=True, return_inverse=True)
    return permute_labels(labels[first], fold[first], count, seed=seed)[:, code]


def permute_labels(labels: Labels, fold: NDArray[np.int64], count: int, *, seed: int = 0) -> Labels:
    """Return labels permuted within each fold, so that every fold keeps its class counts. (count, n)

    Permuted across folds, a fold with few vectors of a class would be tested on a model trained with many of them:
    permuted accuracies would be below one half and every result would look significant.
    """
    rng = np.random.default_rng(seed)
    shuffled = np.tile(labels, (count, 1))
    for number in np.unique(fold):
        members = np.flatnonzero(fold == number)
        order = rng.random((count, len(members))).argsort(axis=1)
        shuffled[:, members] = labels[members][order]
    return shuffled


@formula(
    "linear-accuracy/ridge",
    "clouds.accuracy",
    "clouds.accuracy_p",
    definition="Share of vectors classified correctly by a ridge regression on +-1 (coordinates standardised, "
    "penalty 0.1 n) fitted on the other folds, of 5; accuracy_p is the share of permutations of the labels within "
    "folds that are at least as accurate.",
    cost="one factorisation per fold; one product per permutation",
    citation="Theodolite; Ojala and Garriga, Permutation tests for studying classifier performance, 2010",
    error="Wilson's 95% interval over the vectors (accuracy_low, accuracy_high)",
)
def linear_accuracy(x: Array, labels: Labels, fold: NDArray[np.int64], relabelled: Labels) -> Accuracy:
    """Return the cross-validated accuracy. The fit is linear in the labels, so a permutation costs one product.

    x: (n, dim); labels, fold: (n,); relabelled: (permutations, n)
    """
    every = np.vstack([labels, relabelled]).T * 2.0 - 1.0  # (n, 1 + permutations)
    guesses = np.empty_like(every)
    for number in np.unique(fold):
        test = fold == number
        train, test_x = standardise(x[~test], x[test])
        guesses[test] = _smoother(train, test_x) @ _centre(every[~test])
    right = (guesses * every > 0).mean(axis=0) + 0.5 * (guesses == 0).mean(axis=0)  # a tie counts half
    low, high = wilson_interval(float(right[0]), len(x))
    return Accuracy(float(right[0]), low, high, float((right >= right[0] - 1e-12).mean()))


def standardise(train: Array, test: Array) -> tuple[Array, Array]:
    """Return both, standardised by the mean and standard deviation of the first; constant coordinates become 0."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    tiny = spread <= 1e-12 * np.abs(mean)
    scale = np.where(tiny | (spread == 0), np.inf, spread)
    return (train - mean) / scale, (test - mean) / scale


def wilson_interval(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's confidence interval of a share of n.

    >>> [round(end, 3) for end in wilson_interval(0.5, 100)], [round(end, 3) for end in wilson_interval(1.0, 100)]
    ([0.404, 0.596], [0.963, 1.0])
    """
    z = float(ndtri(0.5 + level / 2))
    middle, below = share + z * z / (2 * n), 1 + z * z / n
    reach = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return float((middle - reach) / below), float(min((middle + reach) / below, 1.0))


def _smoother(train: Array, test: Array) -> Array:
    """Return the matrix from training labels to predictions, (test, train), by the smaller linear system."""
    n, dim = train.shape
    if dim <= n:
        inner = train.T @ train + RIDGE * n * np.eye(dim)
        return np.asarray(test @ np.linalg.solve(inner, train.T))
    outer = train @ train.T + RIDGE * n * np.eye(n)
    return np.asarray(np.linalg.solve(outer, train @ test.T).T)


def _centre(labels: Array) -> Array:
    return np.asarray(labels - labels.mean(axis=0))


TIES = 1e-12


class Energy(NamedTuple):
    """2 E|x - y| - E|x - x'| - E|y - y'|, the same over 2 E|x - y| (0 to 1), and its p-value."""

    distance: float
    share: float
    p: float


@formula(
    "energy-distance",
    "clouds.energy",
    "clouds.energy_share",
    "clouds.energy_p",
    definition="2 E|x - y| - E|x - x'| - E|y - y'| over all pairs of vectors, including a vector with itself; "
    "energy_share is its share of 2 E|x - y|; energy_p is the share of permutations of the labels with at least "
    "this distance.",
    cost="all pairwise distances, and one matrix-vector product per permutation",
    citation="Szekely and Rizzo, Testing for equal distributions in high dimension, 2004",
)
def energy(distances: Array, labels: NDArray[np.bool_], relabelled: NDArray[np.bool_]) -> Energy:
    """Return the energy distance of the two classes of `labels` and its p-value; NaN if a class is empty.

    distances: (n, n); labels: (n,); relabelled: (permutations, n), each with vectors of both classes.
    """
    every = np.vstack([labels, relabelled]).T.astype(np.float64)  # (n, 1 + permutations)
    sides = every.sum(axis=0), len(labels) - every.sum(axis=0)
    if min(sides[0].min(), sides[1].min()) == 0:
        return Energy(*(float("nan"),) * 3)
    products = distances @ every
    inside = np.einsum("np,np->p", every, products)
    reach = products.sum(axis=0)  # from each vector of one class to all others
    between = reach - inside
    outside = float(distances.sum()) - inside - 2 * between
    mean = 2 * between / (sides[0] * sides[1])
    values = mean - inside / sides[0] ** 2 - outside / sides[1] ** 2
    values = np.maximum(values, 0.0)  # negative only by rounding
    share = float(values[0] / mean[0]) if mean[0] > 0 else float("nan")
    return Energy(float(values[0]), share, float((values >= values[0] - TIES * mean.max()).mean()))
