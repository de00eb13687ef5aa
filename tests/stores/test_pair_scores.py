"""Scores of random pairs against those of all pairs, on held-out halves, and the coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.stores.pair_scores import PairScores, cross_moments, pair_moments
from theodolite.stores.reader import ArrayReader
from theodolite.stores.scan import scan_store

BIN = 2 * 2 / 65536  # two bins of a histogram from -1 to 1


def make_clustered(count: int, dim: int = 24, seed: int = 0) -> NDArray[np.float32]:
    """Return vectors in clusters of unequal size about a common mean, as those of texts are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, dim)) + 0.4
    cluster = rng.choice(40, size=count, p=rng.dirichlet(np.ones(40)))
    spread = rng.normal(size=(count, dim)) * rng.uniform(0.3, 1.0, size=(count, 1))
    return (centres[cluster] + spread).astype(np.float32)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def all_pairs(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosines of all pairs of different rows, in float32 to save memory; products in float64."""
    units, kept = unit(vectors), []
    for start in range(0, len(units), 1000):
        block = units[start : start + 1000] @ units[start:].T
        rows, columns = np.triu_indices(len(block), 1, block.shape[1])
        kept.append(block[rows, columns].astype(np.float32))
    return np.concatenate(kept)


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float32]:
    return make_clustered(20_000)


@pytest.fixture(scope="module")
def cosines(vectors) -> NDArray[np.float32]:
    return all_pairs(vectors)


@pytest.mark.slow
def test_moments_are_those_of_all_pairs_of_20000_vectors(vectors, cosines):
    scan = scan_store(ArrayReader(vectors, name="store", digest="a"))
    found = pair_moments(scan.count, scan.units, scan.products)
    assert len(cosines) == 20_000 * 19_999 // 2
    assert found.mean == pytest.approx(cosines.mean(dtype=np.float64), abs=1e-9)
    assert found.variance == pytest.approx(cosines.var(dtype=np.float64), rel=1e-7)


def test_the_variance_of_a_narrow_cone_is_exact_where_float32_products_are_not():
    narrow = make_clustered(2000) * np.float32(1e-3)
    narrow[:, 0] += 1.0
    scan = scan_store(ArrayReader(narrow, name="store", digest="a"))
    units = unit(narrow)
    pairs = (units @ units.T)[np.triu_indices(2000, 1)]
    found = pair_moments(scan.count, scan.units, scan.products).variance
    assert found == pytest.approx(pairs.var(), rel=1e-3)
    narrow_units = units.astype(np.float32)
    products = (narrow_units.T @ narrow_units).astype(np.float64)
    wrong = pair_moments(2000, narrow_units.sum(0).astype(np.float64), products).variance
    assert abs(wrong / pairs.var() - 1) > 0.5


def test_moments_of_queries_and_documents_are_those_of_all_their_pairs():
    documents, queries = make_clustered(700, seed=1), make_clustered(90, seed=2)
    one = scan_store(ArrayReader(documents, name="d", digest="d"))
    other = scan_store(ArrayReader(queries, name="q", digest="q"))
    found = cross_moments(one.count, one.units, one.products, other.count, other.units, other.products)
    pairs = unit(documents) @ unit(queries).T
    assert found.mean == pytest.approx(pairs.mean(), rel=1e-10)
    assert found.variance == pytest.approx(pairs.var(), rel=1e-9)


def test_one_vector_has_no_pairs():
    assert np.isnan(pair_moments(1, np.ones(1), np.ones((1, 1)))).all()
    (found,) = PairScores(torch.ones(1, 3), 1).thresholds([0.01])
    assert found.value is None
    assert found.reason == "fewer than 20 of 0 sampled pairs would exceed it"


@pytest.mark.slow
def test_thresholds_of_a_sample_are_those_of_all_pairs_within_their_intervals(vectors, cosines):
    rows = np.random.default_rng(0).choice(20_000, 4096, replace=False)
    scores = PairScores(torch.from_numpy(vectors[rows]), 20_000)
    rates = [0.1, 0.01, 1e-3, 1e-4]
    ranks = [int((1 - rate) * len(cosines)) for rate in rates]
    truths = np.partition(cosines, ranks)[ranks]
    for found, truth in zip(scores.thresholds(rates), truths, strict=True):
        # 1.5 times the interval: four intervals of 95% miss one truth in 20 tests, these one in 500.
        assert 1.5 * found.low - 0.5 * found.value - BIN <= truth <= 1.5 * found.high - 0.5 * found.value + BIN
        assert found.high - found.low < 0.03


def test_a_sample_of_everything_is_exact_and_has_no_interval():
    vectors = make_clustered(1500)
    cosines = all_pairs(vectors)
    scores = PairScores(torch.from_numpy(vectors), 1500)
    for found in scores.thresholds([0.3, 0.01, 1e-3]):
        assert found.value == pytest.approx(np.quantile(cosines, 1 - found.rate), abs=2 * BIN)
        assert found.high - found.low < 3 * BIN
    share = scores.share_above(0.6)
    assert share.value == pytest.approx((cosines > 0.6).mean(), rel=1e-5)
    assert share.low == pytest.approx(share.high)


@pytest.mark.slow
def test_a_threshold_of_one_half_has_its_rate_on_the_other(vectors):
    order = np.random.default_rng(1).permutation(20_000)
    sample, held_out = vectors[order[:4096]], all_pairs(vectors[order[10_000:]])
    scores = PairScores(torch.from_numpy(sample), 10_000)
    for found in scores.thresholds([0.1, 0.01, 1e-3]):
        rate = (held_out > found.value).mean()
        low, high = (held_out > found.high).mean(), (held_out > found.low).mean()
        # Both halves are samples, so the rate there lies within about 1.5 times the interval.
        assert low - (rate - low) < found.rate < high + (high - rate)
        assert rate == pytest.approx(found.rate, rel=0.25)


@pytest.mark.slow
def test_intervals_cover_95_percent_and_those_of_independent_pairs_do_not():
    vectors = make_clustered(6000, seed=4)
    cosines = np.sort(all_pairs(vectors))
    rng, covered, naive, trials = np.random.default_rng(5), {0.1: 0, 0.001: 0}, 0, 120
    for _ in range(trials):
        scores = PairScores(torch.from_numpy(vectors[rng.choice(6000, 500, replace=False)]), 6000)
        for found in scores.thresholds(list(covered)):
            truth = cosines[int((1 - found.rate) * len(cosines))]
            covered[found.rate] += found.low <= truth <= found.high
        share, truth = scores.share_above(0.5).value, (cosines > 0.5).mean()
        error = np.sqrt(share * (1 - share) / (500 * 499 / 2))  # as if pairs were independent
        naive += abs(share - truth) < 1.96 * error
    for rate, count in covered.items():
        assert count / trials >= 0.89, rate
    assert naive / trials < 0.6


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_other_metrics(metric):
    vectors = make_clustered(800) * np.linspace(0.5, 3, 800, dtype=np.float32)[:, None]
    wide = vectors.astype(np.float64)
    truth = wide @ wide.T if metric == "dot" else -np.linalg.norm(wide[:, None] - wide[None], axis=2)
    pairs = truth[np.triu_indices(800, 1)]
    scores = PairScores(torch.from_numpy(vectors), 800, metric=metric)
    (found,) = scores.thresholds([0.01])
    assert found.value == pytest.approx(np.quantile(pairs, 0.99), abs=3 * np.ptp(pairs) / 65536)


def test_queries_and_documents():
    documents, queries = make_clustered(3000, seed=1), make_clustered(400, seed=1)
    pairs = unit(queries) @ unit(documents).T
    scores = PairScores(torch.from_numpy(documents), 3000, queries=torch.from_numpy(queries), of_queries=400)
    for found in scores.thresholds([0.1, 0.001]):
        assert found.value == pytest.approx(np.quantile(pairs, 1 - found.rate), abs=2 * BIN)
    sampled = PairScores(
        torch.from_numpy(documents[:500]), 3000, queries=torch.from_numpy(queries), of_queries=10**6
    )
    share = sampled.share_above(0.5)
    assert share.low < (pairs > 0.5).mean() < share.high


def test_equal_vectors_have_one_score():
    scores = PairScores(torch.ones(300, 4), 300)
    (found,) = scores.thresholds([0.01])
    assert found.value == pytest.approx(1.0, abs=BIN)
    assert scores.share_above(0.99).value == 1.0


def test_a_score_that_no_pair_exceeds_has_an_upper_limit():
    share = PairScores(torch.from_numpy(make_clustered(300)), 300).share_above(0.9999999)
    assert (share.value, share.low) == (0.0, 0.0)
    assert 0 < share.high < 1e-3


def test_rates_outside_0_and_1_are_rejected():
    scores = PairScores(torch.from_numpy(make_clustered(30)), 30)
    with pytest.raises(InputError, match=r"--false-match-rate must be between 0 and 1 \(got 5\)."):
        scores.thresholds([5])
    with pytest.raises(InputError, match="--metric must be one of cosine, dot, euclidean"):
        PairScores(torch.ones(3, 2), 3, metric="manhattan")
