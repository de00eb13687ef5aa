"""Tests of two samples: naive definitions, permutations that keep documents together, error rates and power."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from theodolite.measures.two_samples import (
    SHRINKAGE,
    Samples,
    compare_coordinates,
    compare_covariances,
    compare_distances,
    compare_lengths,
    compare_means,
    compare_neighbours,
    make_cells,
    permute_cells,
    whiten,
)

Array = NDArray[np.float64]
ROUNDING = 2e-5
"""Products are in float32, of values in the order of 1."""


def draw(documents: int, each: int, dim: int, seed: int, spread: float = 1.0) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), each)
    return spread * rng.standard_normal((documents, dim))[document] + rng.standard_normal(
        (len(document), dim)
    ), document


def naive_excess(similarity: Array, second: NDArray[np.bool_], document: NDArray[np.int64]) -> float:
    """Return the means over pairs of different documents by loops."""
    pairs: dict[tuple[bool, bool], list[float]] = {(False, False): [], (True, True): [], (False, True): []}
    for i in range(len(second)):
        for j in range(len(second)):
            if document[i] != document[j] and second[i] <= second[j]:
                pairs[bool(second[i]), bool(second[j])].append(similarity[i, j])
    return float(np.mean(pairs[False, False]) + np.mean(pairs[True, True]) - 2 * np.mean(pairs[False, True]))


@pytest.fixture
def mixed() -> tuple[Array, NDArray[np.bool_], NDArray[np.int64]]:
    """Documents of two to four rows in a random order, two of them on both sides."""
    rng = np.random.default_rng(3)
    document = rng.permutation(np.repeat(np.arange(20), rng.integers(2, 5, 20)))
    second = document >= 9
    for both in (2, 14):
        rows = np.flatnonzero(document == both)
        second[rows[0]] = not second[rows[0]]
    return rng.standard_normal((len(document), 6)) * np.arange(1, 7) + second[:, None], second, document


def test_statistics_match_the_naive_definitions(mixed: tuple[Array, NDArray[np.bool_], NDArray[np.int64]]) -> None:
    x, second, document = mixed
    samples = Samples(x, second, document, permutations=20)
    centred = x - x.mean(axis=0)
    white = whiten(centred)
    about = x - (x[second].mean(axis=0) + x[~second].mean(axis=0)) / 2
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    norms = np.linalg.norm(x, axis=1)
    assert compare_means(samples).value == pytest.approx(
        naive_excess(white @ white.T, second, document), rel=ROUNDING, abs=ROUNDING
    )
    whole = np.square(about.T @ about / len(x)).sum()
    assert compare_covariances(samples).value == pytest.approx(
        naive_excess(np.square(about @ about.T), second, document) / whole, rel=ROUNDING, abs=ROUNDING
    )
    for found, table in (
        (compare_distances(samples), distances),
        (compare_lengths(samples), np.abs(norms[:, None] - norms)),
    ):
        different = (document[:, None] != document) & (second[:, None] != second)
        between = table[different].mean()
        assert found.value == pytest.approx(
            -naive_excess(table, second, document) / (2 * between), rel=ROUNDING, abs=ROUNDING
        )


def test_neighbours_are_counted_by_side() -> None:
    x, document = draw(40, 1, 3, 0)
    second = np.arange(40) % 4 == 0
    samples = Samples(x, second, document, permutations=9)
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    np.fill_diagonal(distances, np.inf)
    near = distances.argsort(axis=1)[:, :10]
    links = np.zeros((40, 40))
    np.put_along_axis(links, near, 1.0, axis=1)
    links += links.T
    n, m = 30, 10
    own = links[~second][:, ~second].sum() / (n * (n - 1)) + links[second][:, second].sum() / (m * (m - 1))
    between = links[~second][:, second].mean()
    assert compare_neighbours(samples).value == pytest.approx(own / (own + 2 * between), rel=ROUNDING)


def test_whitening_makes_the_covariance_the_identity_without_shrinkage() -> None:
    x, _ = draw(200, 1, 5, 1)
    x = (x - x.mean(axis=0)) * np.arange(1, 6)
    white = whiten(x, shrinkage=0.0)
    np.testing.assert_allclose(white.T @ white / len(x), np.eye(5), atol=1e-12)


def test_permutations_keep_documents_together(mixed: tuple[Array, NDArray[np.bool_], NDArray[np.int64]]) -> None:
    _, second, document = mixed
    cells = make_cells(second, document)
    labels = permute_cells(cells, 200)
    np.testing.assert_array_equal(labels[:, 0], cells.second)
    both = np.flatnonzero(np.bincount(cells.document) == 2)
    assert len(both) == 2
    for code in both:  # the two cells are always on different sides, and on each side in about half of the cases
        pair = labels[cells.document == code]
        assert (pair[0] != pair[1]).all()
        assert 0.3 < pair[0].mean() < 0.7
    single = ~np.isin(cells.document, both)
    np.testing.assert_array_equal(labels[single].sum(axis=0), cells.second[single].sum())


@pytest.mark.parametrize("keep", [True, False])
def test_false_alarms_are_at_the_level_only_if_documents_stay_together(keep: bool) -> None:
    splits, alarms = 120, 0
    x, document = draw(60, 5, 8, 5)
    rng = np.random.default_rng(0)
    for seed in range(splits):
        second = (rng.permutation(60) % 2 == 1)[document]
        units = document if keep else np.arange(len(document))
        alarms += compare_means(Samples(x, second, units, permutations=99, seed=seed)).p <= 0.05
    # 5% of 120 are 6; more than 14 have a probability of 0.1%. One by one, most splits alarm.
    assert alarms <= 14 if keep else alarms > splits / 2


def test_the_coordinate_that_moved_is_found() -> None:
    x, document = draw(80, 3, 30, 2)
    second = document % 2 == 1
    x[:, 4] = 3000 + x[:, 4]  # far from 0 in both
    x[second, 17] += 2.0
    found = compare_coordinates(Samples(x, second, document, permutations=199))
    assert (found.coordinate, found.p) == (17, pytest.approx(1 / 200))
    assert found.value == pytest.approx((x[second, 17].mean() - x[~second, 17].mean()) / x[:, 17].std())


def test_means_that_differ_do_not_look_like_covariances_that_differ() -> None:
    """About the common mean, the smaller of two sides would have larger second moments."""
    x, document = draw(150, 1, 5, 4)
    second = document < 30
    x[second] += 5.0
    samples = Samples(x, second, document, permutations=199)
    assert compare_means(samples).p < 0.01
    assert compare_covariances(samples).p > 0.05
    common = samples.compare(np.square(samples.centred @ samples.centred.T), lambda means: means.excess)
    assert common.p < 0.01


def test_ties_among_neighbours_do_not_prefer_a_side() -> None:
    """Half of the vectors are copies of one: which copies are nearest must not depend on the order of rows."""
    x, document = draw(200, 1, 4, 6)
    x[::2] = 0.0
    second = np.arange(200) >= 100
    assert compare_neighbours(Samples(x, second, document, permutations=99)).p > 0.02


def test_the_interval_of_the_difference_of_means_covers_the_truth() -> None:
    shift = np.full(4, 0.5 * np.sqrt(2))  # the variance of a coordinate is 2
    covariance = 2 * np.eye(4) + np.outer(shift, shift) / 4
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.trace(covariance) / 4 * np.eye(4)
    true, covered = shift @ np.linalg.solve(shrunk, shift), 0
    for seed in range(60):
        x, document = draw(120, 2, 4, 100 + seed)
        second = document % 2 == 1
        x[second] += shift
        value, se, _, _ = compare_means(Samples(x, second, document, permutations=1))
        covered += abs(value - true) <= 1.96 * se
    assert covered >= 51  # of 60; 57 are expected, fewer than 51 have a probability of 0.1%
