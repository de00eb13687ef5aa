"""Recall, churn, intervals and the Pareto front against their definitions."""

from collections import Counter
from math import lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.stores.recall import churn_at, find_pareto, mean_interval, recall_at


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8), factor=st.integers(1, 3))
def test_recall_counts_common_results_with_their_copies(seed: int, k: int, factor: int) -> None:
    rng = np.random.default_rng(seed)
    truth, found = rng.integers(-1, 6, size=(5, 8)), rng.integers(-1, 6, size=(5, 24))
    for candidates in (None, factor * k):
        shares = recall_at(truth, found, k, candidates=candidates)
        for share, true, seen in zip(shares, truth[:, :k], found[:, : candidates or k], strict=True):
            asked = Counter(true[true >= 0].tolist())
            common = (asked & Counter(seen[seen >= 0].tolist())).total()
            assert np.isnan(share) if not asked else share == pytest.approx(common / asked.total())


def test_rescoring_equals_sorting_the_candidates_by_their_true_score() -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(200, 300))
    rough = exact + rng.normal(size=exact.shape)
    truth, found = np.argsort(-exact, axis=1), np.argsort(-rough, axis=1)
    rescored = np.stack([seen[:40][np.argsort(-true[seen[:40]])] for true, seen in zip(exact, found, strict=True)])
    np.testing.assert_allclose(recall_at(truth, found, 10, candidates=40), recall_at(truth, rescored, 10))
    np.testing.assert_allclose(churn_at(truth, found, 10, candidates=40), churn_at(truth, rescored, 10))
    assert churn_at(truth, found, 10).mean() > churn_at(truth, rescored, 10).mean() + 0.1


@pytest.mark.parametrize(("queries", "lowest"), [(1000, 0.94), (100, 0.92)])
@pytest.mark.parametrize("truth", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_intervals_cover_shares_of_one_result(queries: int, lowest: float, truth: float) -> None:
    """The exact coverage, summed over all outcomes; it varies with `truth`, since outcomes are whole numbers."""
    hits = np.arange(queries + 1)
    logs = [lgamma(queries + 1) - lgamma(n + 1) - lgamma(queries - n + 1) for n in hits]
    chance = np.exp(np.array(logs) + hits * np.log(truth) + (queries - hits) * np.log(1 - truth))
    found = [mean_interval(np.r_[np.ones(n), np.zeros(queries - n)]) for n in hits]
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in found)
    assert lowest <= sum(chance[[one.low <= truth <= one.high for one in found]]) <= 0.97
    if (queries, truth) == (100, 0.99):  # the interval of a normal distribution is empty if every result is found
        share = hits / queries
        half = 1.96 * np.sqrt(share * (1 - share) / (queries - 1))
        assert chance[np.abs(share - truth) <= half].sum() < 0.7


def test_intervals_cover_shares_of_ten_results_that_depend_on_each_other() -> None:
    rng = np.random.default_rng(1)
    shares = rng.binomial(10, rng.beta(4, 1, size=(4000, 200))) / 10  # expectation 0.8
    covered = np.mean([one.low <= 0.8 <= one.high for one in map(mean_interval, shares)])
    assert covered == pytest.approx(0.95, abs=0.014)  # four standard errors of 4,000 repetitions
    # Counting 2,000 independent results instead of 200 queries is far too sure.
    half = 1.96 * np.sqrt(shares.mean(1) * (1 - shares.mean(1)) / 2000)
    assert np.mean(np.abs(shares.mean(1) - 0.8) <= half) < 0.85


def test_no_query_has_no_interval() -> None:
    assert np.isnan(mean_interval(np.array([np.nan]))).all()


def test_the_pareto_front_is_what_nothing_beats() -> None:
    rng = np.random.default_rng(2)
    costs, gains = rng.integers(1, 6, 40), rng.integers(0, 6, 40) / 5
    expected = [
        not any((c <= cost and g > gain) or (c < cost and g >= gain) for c, g in zip(costs, gains, strict=True))
        for cost, gain in zip(costs, gains, strict=True)
    ]
    assert find_pareto(costs, gains).tolist() == expected
