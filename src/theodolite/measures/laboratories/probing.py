"""Accuracy of a probe on held-out words, its selectivity against shuffled labels, and intervals for both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from theodolite.measures.formula import formula

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean over folds and its 95% interval; both ends are NaN for a single fold."""

    mean: float
    low: float
    high: float


@formula(
    "probe-accuracy",
    "probe.accuracy",
    "probe.accuracy_low",
    "probe.accuracy_high",
    definition="mean over folds of the share of held-out words given their class; every test set is balanced, "
    "so guessing gives 1/classes",
    cost="one fit per fold",
    citation="Alain and Bengio 2016, arXiv:1610.01644",
    error="95% interval of Student's t over k folds, the variance s^2 (1/k + n_test/n_train) since training sets "
    "overlap (Nadeau and Bengio 2003, Machine Learning 52), limited to [0, 1]",
)
def fold_interval(
    scores: ArrayLike, tested: int, trained: int, *, least: float = 0.0, most: float = 1.0
) -> Interval:
    """Return the mean of a score over folds and its 95% interval. scores: (folds,)

    Folds share most of their training words, so the variance s^2/k is too small; Nadeau and Bengio add
    s^2 n_test/n_train.

    >>> fold_interval([0.8, 0.9, 1.0], 10, 20).mean, fold_interval([0.8], 10, 20).low
    (0.9, nan)
    """
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, np.nan, np.nan)
    variance = values.var(ddof=1) * (1 / len(values) + tested / trained)
    reach = float(student.ppf((1 + LEVEL) / 2, len(values) - 1) * np.sqrt(variance))
    return Interval(mean, max(least, mean - reach), min(most, mean + reach))


@formula(
    "probe-selectivity",
    "probe.selectivity",
    "probe.selectivity_low",
    "probe.selectivity_high",
    definition="accuracy - control: the accuracy minus that of the same probe on labels shuffled among the "
    "words, with a new shuffle for each fold; control_fit is the share of shuffled training labels that the "
    "probe reproduces",
    cost="one more fit per fold",
    citation="Hewitt and Liang 2019, EMNLP, D19-1275",
    error="as probe-accuracy, over the folds' differences",
)
def selectivity(accuracy: ArrayLike, control: ArrayLike, tested: int, trained: int) -> Interval:
    """Return the mean of accuracy - control over folds and its interval. Both: (folds,)

    >>> round(selectivity([0.9, 0.8], [0.2, 0.3], 10, 10).mean, 3)
    0.6
    """
    apart = np.asarray(accuracy, dtype=np.float64) - np.asarray(control, dtype=np.float64)
    return fold_interval(apart, tested, trained, least=-1.0, most=1.0)
