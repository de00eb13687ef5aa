from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from theodolite.measures.laboratories.probing import fold_interval, selectivity

EXACT = 1e-12  # the same few sums in another order


def test_the_interval_is_nadeau_and_bengios() -> None:
    scores = [0.71, 0.64, 0.80, 0.69, 0.75]
    mean = sum(scores) / 5
    variance = sum((score - mean) ** 2 for score in scores) / 4
    reach = t.ppf(0.975, 4) * math.sqrt(variance * (1 / 5 + 20 / 80))
    assert fold_interval(scores, 20, 80) == pytest.approx((mean, mean - reach, mean + reach), abs=EXACT)
    naive = t.ppf(0.975, 4) * math.sqrt(variance / 5)  # as if training sets did not overlap
    assert reach > 1.4 * naive


def test_the_interval_covers_the_truth_and_the_naive_one_does_not() -> None:
    """Folds that share training words share their luck: scores = truth + what all share + what each has."""
    rng = np.random.default_rng(0)
    hit = naive = 0
    for _ in range(2000):
        own = 0.02
        scores = 0.7 + rng.normal(scale=0.5 * own) + rng.normal(scale=own, size=5)
        low, high = fold_interval(scores, 20, 80)[1:]
        hit += low <= 0.7 <= high
        reach = t.ppf(0.975, 4) * scores.std(ddof=1) / math.sqrt(5)
        naive += abs(scores.mean() - 0.7) <= reach
    assert hit / 2000 == pytest.approx(0.95, abs=0.02)  # 4 binomial standard errors
    assert naive / 2000 < 0.9


def test_the_interval_stays_within_0_and_1_and_is_undefined_for_one_fold() -> None:
    assert fold_interval([0.9, 1.0], 5, 5)[2] == 1.0
    assert fold_interval([0.0, 0.1], 5, 5)[1] == 0.0
    mean, low, high = fold_interval([0.5], 5, 5)
    assert mean == 0.5
    assert math.isnan(low)
    assert math.isnan(high)


def test_selectivity_is_of_the_folds_differences() -> None:
    accuracy, control = [0.9, 0.8, 1.0], [0.3, 0.4, 0.2]
    expected = fold_interval([0.6, 0.4, 0.8], 10, 20, least=-1)
    assert selectivity(accuracy, control, 10, 20) == pytest.approx(expected, abs=EXACT)
    assert selectivity([0.0, 0.0], [0.9, 1.0], 10, 10).low == -1.0
