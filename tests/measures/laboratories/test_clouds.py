"""Accuracy of a line and energy distance, against the definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest

from theodolite.measures.laboratories.clouds import (
    RIDGE,
    assign_folds,
    assign_source_folds,
    energy,
    linear_accuracy,
    permute_labels,
    permute_sources,
    wilson_interval,
)

RNG = np.random.default_rng(5)


def setting(n: int, seed: int = 0, permutations: int = 99) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels = np.arange(2 * n) < n
    fold = np.concatenate([assign_folds(n, seed=seed), assign_folds(n, seed=seed + 1)])
    return labels, fold, permute_labels(labels, fold, permutations, seed=seed)


def naive_accuracy(x: np.ndarray, labels: np.ndarray, fold: np.ndarray) -> float:
    right = []
    for number in range(5):
        train, test = fold != number, fold == number
        mean, spread = x[train].mean(0), x[train].std(0)
        z = (x[train] - mean) / spread
        y = np.where(labels[train], 1.0, -1.0)
        weights = np.linalg.inv(z.T @ z + RIDGE * train.sum() * np.eye(x.shape[1])) @ z.T @ (y - y.mean())
        right += list(((x[test] - mean) / spread @ weights > 0) == labels[test])
    return float(np.mean(right))


@pytest.mark.parametrize("dim", [6, 80])  # fewer coordinates than vectors, and more
def test_the_accuracy_is_that_of_a_ridge_regression(dim: int) -> None:
    x = RNG.normal(size=(60, dim))
    x[:30] += 0.4
    x[:, 1] += 3000.0
    labels, fold, shuffled = setting(30)
    found = linear_accuracy(x, labels, fold, shuffled)
    assert found.value == pytest.approx(naive_accuracy(x, labels, fold))
    others = [naive_accuracy(x, other, fold) for other in shuffled]
    assert found.p == pytest.approx((1 + sum(other >= found.value - 1e-12 for other in others)) / 100)
    assert found.low < found.value < found.high


def test_labels_are_shuffled_within_folds() -> None:
    labels, fold, shuffled = setting(23)
    for number in range(5):
        assert np.all(shuffled[:, fold == number].sum(axis=1) == labels[fold == number].sum())
    assert len(np.unique(shuffled, axis=0)) == 99


def test_the_p_of_equal_clouds_is_uniform() -> None:
    """And accuracies relabelled across folds lie below those within them, which would make p too small."""
    found = []
    for seed in range(150):
        x = np.random.default_rng(seed).normal(size=(40, 12))
        labels, fold, shuffled = setting(20, seed)
        found.append((linear_accuracy(x, labels, fold, shuffled).p, energy(cdist(x, x), labels, shuffled).p))
    for p in np.array(found).T:
        assert np.mean(p <= 0.05) <= 0.11  # 0.05, and 3 standard errors of 150
        assert 0.4 < np.mean(p) < 0.6
    assert kstest(np.array(found)[:, 1], "uniform").pvalue > 0.01


def test_documents_of_one_source_are_permuted_together() -> None:
    """Ten sources of six documents on each side, of one distribution: by document nearly every p is small."""
    source = np.repeat(np.arange(20), 6)
    labels = source < 10
    by_document, by_source = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(20, 8))[source] + rng.normal(0, 0.5, (120, 8))
        each = np.concatenate([assign_folds(60, seed=seed), assign_folds(60, seed=seed + 1)])
        shuffled = permute_labels(labels, each, 99, seed=seed)
        by_document.append(energy(cdist(x, x), labels, shuffled).p)
        fold = np.concatenate(
            [assign_source_folds(source[labels], seed=seed), assign_source_folds(source[~labels], seed=seed + 1)]
        )
        assert all(len(set(fold[source == number])) == 1 for number in range(20))
        shuffled = permute_sources(labels, fold, source, 99, seed=seed)
        assert all((shuffled[:, source == number].std(axis=1) == 0).all() for number in range(20))
        by_source.append((energy(cdist(x, x), labels, shuffled).p, linear_accuracy(x, labels, fold, shuffled).p))
    assert np.mean(np.array(by_document) <= 0.05) > 0.8
    assert (np.mean(np.array(by_source) <= 0.05, axis=0) <= 0.12).all()  # 0.05, and 3 standard errors of 100


def test_planted_clouds_are_distinguished() -> None:
    x = RNG.normal(size=(80, 12))
    x[:40, 0] += 4
    labels, fold, shuffled = setting(40)
    found, apart = linear_accuracy(x, labels, fold, shuffled), energy(cdist(x, x), labels, shuffled)
    assert found.value > 0.9
    assert found.p == apart.p == 0.01  # the smallest p of 99 relabellings


def test_energy_detects_a_spread_that_a_linear_classifier_misses() -> None:
    x = RNG.normal(size=(120, 6))
    x[:60] *= 3
    labels, fold, shuffled = setting(60)
    assert energy(cdist(x, x), labels, shuffled).p == 0.01
    assert linear_accuracy(x, labels, fold, shuffled).p > 0.01


def test_the_energy_distance_is_its_definition() -> None:
    x = RNG.normal(size=(14, 5))
    labels = np.arange(14) < 6
    a, b = x[labels], x[~labels]
    between = cdist(a, b).mean()
    expected = 2 * between - cdist(a, a).mean() - cdist(b, b).mean()
    found = energy(cdist(x, x), labels, np.empty((0, 14), dtype=bool))
    assert found.distance == pytest.approx(expected, rel=1e-12)
    assert found.share == pytest.approx(expected / (2 * between), rel=1e-12)
    assert found.p == 1.0
    assert np.isnan(energy(cdist(x, x), np.ones(14, dtype=bool), np.empty((0, 14), dtype=bool)).distance)


def test_equal_vectors_give_chance_accuracy() -> None:
    labels, fold, shuffled = setting(20)
    found = linear_accuracy(np.full((40, 3), 7.0), labels, fold, shuffled)
    assert (found.value, found.p) == (0.5, 1.0)
    still = energy(np.zeros((40, 40)), labels, shuffled)
    assert (still.distance, still.p) == (0.0, 1.0)
    assert np.isnan(still.share)


def test_wilson_by_hand() -> None:
    low, high = wilson_interval(0.9, 50)
    z = 1.959964
    for end in (low, high):  # the ends are where the score test is just significant
        assert abs(0.9 - end) == pytest.approx(z * np.sqrt(end * (1 - end) / 50), rel=1e-5)
