"""Differences between groups: each number by its definition, errors and the correction by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from theodolite.batch import GROUPS
from theodolite.measures.group_differences import COMPARED, PAIRED, FieldSums, compare_groups
from theodolite.measures.resampling import MIN_GROUPS

Array = NDArray[np.float64]
Labelled = tuple[Array, NDArray[np.int64], NDArray[np.int64]]
"""Rows, their groups, and their document groups."""
EXACT = 1e-10
"""Relative: float64 sums about a centre, and no vectors of very different lengths."""


def sums_of(x: Array, by: NDArray[np.int64], documents: NDArray[np.int64], centre: Array) -> FieldSums:
    """Sum rows by group and document group, one row after the other."""
    groups, dim = by.max() + 1, x.shape[1]
    n, squares = np.zeros((groups, GROUPS), dtype=np.int64), np.zeros((groups, GROUPS))
    total, directions = np.zeros((2, groups, GROUPS, dim))
    for row, group, document in zip(x, by, documents, strict=True):
        n[group, document] += 1
        squares[group, document] += np.square(row - centre).sum()
        total[group, document] += row - centre
        directions[group, document] += row / np.linalg.norm(row)
    return FieldSums(n, total, squares, n.copy(), directions)


@pytest.fixture(scope="module")
def rows() -> Labelled:
    random = np.random.default_rng(0)
    by, documents = random.integers(3, size=240), random.integers(GROUPS, size=240)
    return random.normal(size=(240, 5)) + 3 + by[:, None] * np.array([0.3, 0, 0, 0, 1]), by, documents


def naive(x: Array, y: Array) -> dict[str, float]:
    """Return the numbers of two groups by their definitions."""

    def own(z: Array) -> dict[str, float]:
        mean = z.mean(0)
        units = z / np.linalg.norm(z, axis=1, keepdims=True)
        cosines = units @ units.T
        off = cosines[~np.eye(len(z), dtype=bool)]
        q, m = np.square(z).sum(1).mean(), mean @ mean
        return {"q": q, "m": m, "v": np.square(z - mean).sum(1).mean(), "mean_cosine": off.mean()}

    a, b = own(x), own(y)
    cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u in x for v in y]
    mean, other = x.mean(0), y.mean(0)
    paired = {
        "cosine_between": float(np.mean(cosines)),
        "centroid_cosine": mean @ other / np.linalg.norm(mean) / np.linalg.norm(other),
        "centroid_distance": float(np.linalg.norm(mean - other)),
        "centroid_separation": np.square(mean - other).sum() / ((a["v"] + b["v"]) / 2),
    }
    return {name: b[name] - a[name] for name in COMPARED} | paired


def test_numbers_and_errors_are_their_definitions(
    rows: Labelled,
) -> None:
    x, by, documents = rows
    found = compare_groups(sums_of(x, by, documents, np.full(5, 2.5)), np.full(5, 2.5))
    whole = naive(x[by == 0], x[by == 2])
    without = [naive(*(x[(by == group) & (documents != one)] for group in (0, 2))) for one in range(GROUPS)]
    for name in (*COMPARED, *PAIRED):
        left = np.array([each[name] for each in without])
        error = np.sqrt((GROUPS - 1) / GROUPS * np.square(left - left.mean()).sum())
        expected = whole[name]
        if name == "centroid_separation":
            expected = GROUPS * expected - (GROUPS - 1) * left.mean()
        assert found.values[name][0, 2] == pytest.approx(expected, rel=EXACT), name
        assert found.errors[name][0, 2] == pytest.approx(error, rel=1e-6), name


def test_pairs_are_antisymmetric_or_symmetric(rows: Labelled) -> None:
    found = compare_groups(sums_of(*rows, np.zeros(5)), np.zeros(5)).values
    for name in COMPARED:
        np.testing.assert_allclose(found[name], -found[name].T)
    for name in PAIRED:
        np.testing.assert_allclose(found[name], found[name].T)


def test_groups_with_few_documents_have_no_errors() -> None:
    random = np.random.default_rng(1)
    documents = np.concatenate([np.arange(200) % GROUPS, np.arange(200) % (MIN_GROUPS - 1)])
    sums = sums_of(random.normal(size=(400, 4)), np.repeat([0, 1], 200), documents, np.zeros(4))
    values, errors = compare_groups(sums, np.zeros(4))
    assert np.isnan(errors["q"][0, 1])
    assert np.isnan(values["centroid_separation"][0, 1])
    assert np.isfinite(values["centroid_distance"][0, 1])


def test_an_empty_group_is_undefined_and_leaves_the_others_alone() -> None:
    random = np.random.default_rng(2)
    x, by, documents = random.normal(size=(400, 4)), np.arange(400) % 2 * 2, np.arange(400) // 2 % GROUPS
    values, errors = compare_groups(sums_of(x, by, documents, np.zeros(4)), np.zeros(4))
    assert np.isfinite(values["centroid_distance"][0, 2])
    assert np.isfinite(errors["centroid_distance"][0, 2])
    for name in (*COMPARED, *PAIRED):
        assert np.isnan(values[name][0, 1]), name


def simulate(random: np.random.Generator, shift: float) -> FieldSums:
    """Two groups of 40 documents of 5 rows; rows of a document are alike, as tokens of one text are."""
    rows, by, groups = [], [], []
    for group in range(2):
        for document in range(40):
            middle = random.normal(size=6) + shift * group * np.eye(6)[0]
            rows.append(middle + random.normal(size=(5, 6)))
            by += [group] * 5
            groups += [document % GROUPS] * 5
    return sums_of(np.concatenate(rows), np.array(by), np.array(groups), np.zeros(6))


def test_intervals_cover_and_the_correction_removes_the_noise_of_the_means() -> None:
    random = np.random.default_rng(3)
    found = [compare_groups(simulate(random, 0.0), np.zeros(6)) for _ in range(150)]
    differences = np.array([each.values["v"][0, 1] for each in found])
    errors = np.array([each.errors["v"][0, 1] for each in found])
    assert errors.mean() == pytest.approx(differences.std(ddof=1), rel=0.25)  # 150 draws: known to 6%
    assert (np.abs(differences) < 1.96 * errors).mean() > 0.88
    # The two means are equal. The plain ratio is V/n of independent documents twice: it says 0.05 and not 0.
    separation = np.array([each.values["centroid_separation"][0, 1] for each in found])
    plain = np.array([each.values["centroid_distance"][0, 1] ** 2 for each in found]) / 12
    noise = separation.std(ddof=1) / np.sqrt(len(separation))
    assert abs(separation.mean()) < 4 * noise
    assert plain.mean() > 10 * noise
