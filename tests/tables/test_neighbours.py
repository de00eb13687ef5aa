"""Nearest units against the definition: cosines of all pairs of means, in float64."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from theodolite.statistics.moments import UnitSums
from theodolite.tables.neighbours import NEAREST, find_nearest_units, neighbours_table

# float32 cosines of unit vectors.
ROUNDING = 1e-6


def sums(count: int, dim: int = 8) -> tuple[UnitSums, np.ndarray]:
    rng = np.random.default_rng(3)
    means, centre, n = rng.normal(size=(count, dim)), rng.normal(size=dim) * 5, rng.integers(1, 50, count)
    total = (means - centre) * n[:, None]
    parts = (np.arange(count) * 2, n, total, np.zeros(count), centre)
    return UnitSums(*map(torch.from_numpy, parts)), means


def hash_codes(codes: np.ndarray) -> np.ndarray:
    return (codes * 7 % 30).astype(np.uint64)


def test_nearest_are_those_with_the_largest_cosine() -> None:
    given, means = sums(30)
    found = find_nearest_units(given, hash_codes)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    for row, code in enumerate(found.codes):
        expected = np.sort(cosines[code // 2])[::-1][:NEAREST]
        assert found.cosine[row] == pytest.approx(expected, abs=ROUNDING)
        assert cosines[code // 2, found.near[row] // 2] == pytest.approx(expected, abs=ROUNDING)
    # Cosines of the sums about the centre, the tempting shortcut, have other neighbours.
    about = given.sum.numpy() / np.linalg.norm(given.sum.numpy(), axis=1, keepdims=True)
    wrong = about @ about.T
    np.fill_diagonal(wrong, -2)
    assert (wrong.argmax(axis=1) != cosines.argmax(axis=1)).any()


@pytest.mark.parametrize("most", [2, 7, 15, 29])
def test_only_the_most_frequent_have_neighbours(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are equally frequent, the ones with the smallest hashes."""
    monkeypatch.setattr("theodolite.tables.neighbours.MOST_UNITS", most)
    given, _ = sums(30)
    given = replace(given, n=given.n // 10 + 1)
    found = find_nearest_units(given, hash_codes)
    frequent = np.sort(np.lexsort((hash_codes(np.arange(30) * 2), -given.n.numpy()))[:most]) * 2
    assert found.codes.tolist() == frequent.tolist()
    assert set(found.near.ravel()) <= set(frequent)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_units_have_no_neighbours(count: int) -> None:
    given, _ = sums(count)
    found = find_nearest_units(given, hash_codes)
    assert len(found.codes) == 0
    assert len(neighbours_table([(0, "all", found)], pd.Series(["a"], dtype=object))) == 0
