"""Within, between, silhouettes and the permutation test against loops over pairs, planted groups and a null."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest

from theodolite.measures.laboratories.groups import (
    cosine_distances,
    cosines,
    count_labellings,
    distances,
    separation,
    silhouettes,
    within_between,
)

RNG = np.random.default_rng(5)
GROUP = np.repeat([0, 1, 2, 3], [6, 5, 7, 1])
CENTRES = RNG.normal(size=(4, 12)) * 4
PLANTED = CENTRES[GROUP] + RNG.normal(size=(19, 12))
NULL = RNG.normal(size=(19, 12))


def apart(x: np.ndarray, y: np.ndarray) -> float:
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def test_within_and_between_are_means_over_pairs() -> None:
    same, other = [], []
    for i, j in combinations(range(19), 2):
        (same if GROUP[i] == GROUP[j] else other).append(apart(PLANTED[i], PLANTED[j]))
    found = within_between(distances(PLANTED), GROUP)
    assert found == pytest.approx((np.mean(same), np.mean(other)), rel=1e-12)


def test_distances_survive_a_rogue_coordinate() -> None:
    """The tempting |x|^2 + |y|^2 - 2xy has lost what is left beside 3,000^2."""
    vectors = RNG.normal(size=(6, 5)) * 1e-5
    vectors[:, 0] = 3000.0
    expected = np.array([[apart(x[1:], y[1:]) for y in vectors] for x in vectors])
    assert distances(vectors) == pytest.approx(expected, rel=1e-9, abs=1e-18)
    squares = np.square(vectors).sum(1)
    gram = np.sqrt(np.maximum(squares[:, None] + squares - 2 * vectors @ vectors.T, 0))
    assert np.abs(gram - expected).max() > 1e-6


def test_silhouettes_equal_the_definition_of_rousseeuw() -> None:
    table = distances(PLANTED)
    for i in range(19):
        own = [table[i, j] for j in range(19) if j != i and GROUP[j] == GROUP[i]]
        means = [np.mean([table[i, j] for j in range(19) if GROUP[j] == g]) for g in range(4) if g != GROUP[i]]
        a, b = (np.mean(own), min(means)) if own else (0.0, 0.0)
        expected = (b - a) / max(a, b) if own else 0.0
        assert silhouettes(table, GROUP)[i] == pytest.approx(expected, rel=1e-12)


def test_silhouettes_equal_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    assert silhouettes(distances(PLANTED), GROUP) == pytest.approx(metrics.silhouette_samples(PLANTED, GROUP))


def test_planted_groups_are_found_and_a_null_is_not() -> None:
    planted = separation(distances(PLANTED), GROUP)
    assert planted.p == planted.p_least == 0.001
    assert planted.value > 0.5
    # This null is a little unlikely (p = 0.035), as one in thirty is; the next test checks that no more are.
    assert separation(distances(NULL), GROUP).p > 10 * planted.p_least
    assert abs(separation(distances(NULL), GROUP).value) < 0.1 * planted.value


def test_p_values_are_uniform_under_the_null() -> None:
    """Of 200 nulls about a tenth has p below 0.1: 20 plus or minus 3 standard deviations of 4.2."""
    found = [
        separation(distances(RNG.normal(size=(12, 3))), np.repeat([0, 1, 2], 4), permutations=199, seed=number).p
        for number in range(200)
    ]
    assert 7 <= sum(p <= 0.1 for p in found) <= 33


def test_p_is_the_share_of_labellings_with_at_least_the_score() -> None:
    group = np.array([0, 0, 0, 1, 1])
    vectors = RNG.normal(size=(5, 3))
    table = distances(vectors)

    def value(labels: np.ndarray) -> float:
        found = within_between(table, labels)
        return found.between - found.within

    exact = np.mean([value(np.array(labels)) >= value(group) - 1e-12 for labels in permutations(group.tolist())])
    # 19,999 draws of a share know it to 0.0035 standard deviations; 5 of them.
    assert separation(table, group, permutations=19_999).p == pytest.approx(exact, abs=0.018)
    assert separation(table, group).value == pytest.approx(value(group) / table[np.triu_indices(5, 1)].mean())


def test_few_sentences_cannot_be_significant() -> None:
    group = np.array([0, 0, 1, 1])
    vectors = np.array([[0.0], [0.1], [9.0], [9.1]])
    assert separation(distances(vectors), group).p_least == pytest.approx(1 / 3)
    assert separation(distances(vectors), group).p > 0.3
    ways = {frozenset(map(frozenset, (pair, {0, 1, 2, 3} - set(pair)))) for pair in combinations(range(4), 2)}
    assert count_labellings(group) == len(ways)


@pytest.mark.filterwarnings("error")
def test_what_is_undefined_is_nan() -> None:
    one = np.ones((4, 3))
    group = np.array([0, 0, 1, 1])
    assert np.isnan(separation(distances(one), group).value)
    assert np.isnan(silhouettes(distances(one), group)).all()
    assert np.isnan(silhouettes(cosine_distances(one), group)).all()  # 1 - cos would be rounding, not 0
    assert np.isnan(separation(distances(NULL[:4]), np.arange(4)).p)  # no pair within
    assert np.isnan(separation(distances(NULL[:4]), np.zeros(4, dtype=int)).p)  # none between
    assert np.isnan(separation(distances(NULL[:1]), np.zeros(1, dtype=int)).p)
    assert np.isnan(cosines(np.array([[0.0, 0.0], [1.0, 0.0]]))[0, 1])


def test_turns_are_one_minus_the_cosine() -> None:
    assert cosine_distances(PLANTED) == pytest.approx(1 - cosines(PLANTED), abs=1e-14)
