"""How well a straight line tells two clouds apart, on vectors that it has not seen."""

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
"""The penalty a vector and a standardised coordinate: enough for more coordinates than vectors."""


class Accuracy(NamedTuple):
    """Share of vectors put on the right side by a line drawn without them, its 95% interval and its p."""

    value: float
    low: float
    high: float
    p: float


def folds(size: int, *, seed: int = 0, count: int = FOLDS) -> NDArray[np.int64]:
    """Return a fold for each of `size` vectors of one side, sizes as even as can be. (size,)"""
    return np.random.default_rng(seed).permutation(np.arange(size) % count)


def relabellings(labels: Labels, fold: NDArray[np.int64], count: int, *, seed: int = 0) -> Labels:
    """Return labels shuffled within each fold, so that every fold keeps as many of both. (count, n)

    Shuffled across folds, a fold short of a label would train on too many of it and guess wrong: permuted
    accuracies would lie below one half and everything would look surprising.
    """
    rng = np.random.default_rng(seed)
    shuffled = np.tile(labels, (count, 1))
    for number in np.unique(fold):
        here = np.flatnonzero(fold == number)
        order = rng.random((count, len(here))).argsort(axis=1)
        shuffled[:, here] = labels[here][order]
    return shuffled


@formula(
    "linear-accuracy/ridge",
    "clouds.accuracy",
    "clouds.accuracy_p",
    definition="Share of vectors on the right side of a ridge regression on +-1 (coordinates standardised, "
    "penalty 0.1 n) fitted without their fold, of 5; accuracy_p the share of relabellings within folds that do as "
    "well.",
    cost="one factorisation a fold; a product a relabelling",
    citation="Theodolite; Ojala and Garriga, Permutation tests for studying classifier performance, 2010",
    error="Wilson's 95% interval over the vectors (accuracy_low, accuracy_high)",
)
def linear_accuracy(x: Array, labels: Labels, fold: NDArray[np.int64], relabelled: Labels) -> Accuracy:
    """Return the cross-validated accuracy. The fit is linear in the labels, so relabelling costs one product.

    x: (n, dim); labels, fold: (n,); relabelled: (permutations, n)
    """
    every = np.vstack([labels, relabelled]).T * 2.0 - 1.0  # (n, 1 + permutations)
    guesses = np.empty_like(every)
    for number in np.unique(fold):
        test = fold == number
        train, test_x = standardised(x[~test], x[test])
        guesses[test] = _smoother(train, test_x) @ _centred(every[~test])
    right = (guesses * every > 0).mean(axis=0) + 0.5 * (guesses == 0).mean(axis=0)  # a tie is a coin
    low, high = wilson(float(right[0]), len(x))
    return Accuracy(float(right[0]), low, high, float((right >= right[0] - 1e-12).mean()))


def standardised(train: Array, test: Array) -> tuple[Array, Array]:
    """Return both with the mean and the standard deviation of the first taken out; a constant coordinate is 0."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    tiny = spread <= 1e-12 * np.abs(mean)
    scale = np.where(tiny | (spread == 0), np.inf, spread)
    return (train - mean) / scale, (test - mean) / scale


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval of a share of n.

    >>> [round(end, 3) for end in wilson(0.5, 100)], [round(end, 3) for end in wilson(1.0, 100)]
    ([0.404, 0.596], [0.963, 1.0])
    """
    z = float(ndtri(0.5 + level / 2))
    middle, below = share + z * z / (2 * n), 1 + z * z / n
    reach = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return float((middle - reach) / below), float(min((middle + reach) / below, 1.0))


def _smoother(train: Array, test: Array) -> Array:
    """Return what turns training labels into guesses, (test, train), by the smaller of the two systems."""
    n, dim = train.shape
    if dim <= n:
        inner = train.T @ train + RIDGE * n * np.eye(dim)
        return np.asarray(test @ np.linalg.solve(inner, train.T))
    outer = train @ train.T + RIDGE * n * np.eye(n)
    return np.asarray(np.linalg.solve(outer, train @ test.T).T)


def _centred(labels: Array) -> Array:
    return np.asarray(labels - labels.mean(axis=0))
