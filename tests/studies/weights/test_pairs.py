"""All pairs in blocks, against naive loops in float64."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

from theodolite.studies.weights.pair_statistics import LARGEST, NEAREST, SMALLEST, Histogram, histogram_of
from theodolite.studies.weights.pair_tables import ordered_extremes
from theodolite.studies.weights.pairs import PairTable, all_pairs

EXACT = 1e-12
"""Relative: products in float64 of a dozen coordinates."""
BY_PRODUCTS = 1e-7
"""Of the longest row: a distance from products is the root of a difference, so rounding is rooted too."""


def rows(n: int, dim: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32))


def naive(left: torch.Tensor, right: torch.Tensor | None = None) -> dict[str, list[tuple[float, int, int]]]:
    """Every metric of every pair of finite rows by its definition, one pair at a time."""
    x = left.numpy().astype(np.float64)
    y = x if right is None else right.numpy().astype(np.float64)
    pairs = combinations(range(len(x)), 2) if right is None else product(range(len(x)), range(len(y)))
    found: dict[str, list[tuple[float, int, int]]] = {"dot": [], "cosine": [], "distance": []}
    for i, j in pairs:
        if not (np.isfinite(x[i]).all() and np.isfinite(y[j]).all()):
            continue
        dot = float(sum(a * b for a, b in zip(x[i], y[j], strict=True)))
        found["dot"].append((dot, i, j))
        found["distance"].append((float(np.sqrt(sum((x[i] - y[j]) ** 2))), i, j))
        lengths = float(np.sqrt(sum(x[i] ** 2)) * np.sqrt(sum(y[j] ** 2)))
        if lengths > 0:
            found["cosine"].append((dot / lengths, i, j))
    return found


KEYS: dict[str, Any] = {LARGEST: lambda v: -v, SMALLEST: lambda v: v, NEAREST: abs}


def check_same(left: torch.Tensor, right: torch.Tensor | None = None, *, block: int = 7, most: int = 5) -> None:
    one, other = PairTable("one", left), None if right is None else PairTable("other", right)
    longest = max(1.0, float(one.norms.max()), float(other.norms.max()) if other else 0.0)
    for name, metric in all_pairs(one, other, most=most, block=block).items():
        truth = naive(left, right)[name]
        values = np.array([value for value, _, _ in truth])
        slack = EXACT * longest**2 if name != "distance" else BY_PRODUCTS * longest
        assert metric.n == len(values)
        assert metric.mean == pytest.approx(values.mean(), rel=EXACT, abs=slack)
        assert metric.sd == pytest.approx(values.std(), rel=1e-9, abs=slack)
        assert metric.smallest == pytest.approx(values.min(), rel=EXACT, abs=slack)
        assert metric.largest == pytest.approx(values.max(), rel=EXACT, abs=slack)
        bins = metric.bins.table()
        assert bins["count"].sum() == len(values)
        for extremes in metric.extremes:
            pairs, found = ordered_extremes(extremes, name, one, other or one)
            first = sorted(truth, key=lambda row: KEYS[extremes.which](row[0]))[:most]
            assert found == pytest.approx([value for value, _, _ in first], rel=EXACT, abs=1e-15 * longest**2)
            assert len(pairs) == len(first)


@pytest.mark.parametrize("block", [4, 7, 64])
def test_within_a_table(block: int) -> None:
    check_same(rows(41), block=block)


@pytest.mark.parametrize("block", [3, 100])
def test_between_tables(block: int) -> None:
    check_same(rows(23), rows(17, seed=1), block=block)


def test_rogues_zeros_and_nans() -> None:
    vectors = rows(30)
    vectors[:, 3] += 3000  # a common offset
    vectors[4] *= 150
    vectors[7] = 0
    vectors[9, 2] = torch.nan
    check_same(vectors)


def test_a_common_offset_does_not_change_distances() -> None:
    """Without the shift to the mean, 9e6 + 9e6 - 2 * 9e6 in float32 leaves nothing of a distance of 5."""
    vectors = rows(40)
    vectors[:, 3] += 3000
    truth = np.mean([value for value, _, _ in naive(vectors)["distance"]])
    assert all_pairs(PairTable("words", vectors))["distance"].mean == pytest.approx(truth, rel=1e-12)
    squares = (vectors * vectors).sum(dim=1)
    wrong = (squares[:, None] + squares - 2 * vectors @ vectors.T).clamp(min=0).sqrt()
    upper = wrong[np.triu_indices(40, 1)].double().mean()
    assert abs(float(upper) - truth) > 1e-3 * truth


@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few_rows(n: int) -> None:
    found = all_pairs(PairTable("words", rows(5)[:n]))
    for metric in found.values():
        assert metric.n == n * (n - 1) // 2
        assert np.isnan(metric.mean) == (n < 2)
        assert metric.bins.table()["count"].sum() == metric.n


@pytest.mark.parametrize("block", [4, 11, 64])
def test_ties_go_to_the_first_rows_whatever_the_blocks(block: int) -> None:
    vectors = rows(50)
    vectors[[3, 9, 40, 44, 48]] = vectors[1].clone()  # 15 pairs of cosine 1
    vectors[20:30] = 2 * torch.eye(12)[:10]  # 45 pairs of cosine 0
    side = PairTable("words", vectors)
    cosine = all_pairs(side, most=6, block=block)["cosine"]
    largest, nearest, _ = (ordered_extremes(extremes, "cosine", side, side) for extremes in cosine.extremes)
    assert largest[0].tolist() == [[1, 3], [1, 9], [1, 40], [1, 44], [1, 48], [3, 9]]
    assert nearest[0].tolist() == [[20, 21], [20, 22], [20, 23], [20, 24], [20, 25], [20, 26]]


def test_blocks_have_no_effect() -> None:
    side = PairTable("words", rows(100))
    for name in ("dot", "cosine", "distance"):
        one, other = (all_pairs(side, block=block)[name] for block in (13, 1024))
        assert one.bins.table().equals(other.bins.table())
        assert one.mean == pytest.approx(other.mean, rel=1e-13, abs=1e-13)
        for mine, theirs in zip(one.extremes, other.extremes, strict=True):
            assert (
                ordered_extremes(mine, name, side, side)[0].tolist()
                == ordered_extremes(theirs, name, side, side)[0].tolist()
            )


def test_float32_would_name_the_wrong_pairs_nearest_zero() -> None:
    vectors = rows(600, dim=64)
    truth = sorted((abs(v), i, j) for v, i, j in _cosines(vectors.double()))[:3]
    side = PairTable("words", vectors)
    pairs, values = ordered_extremes(all_pairs(side, most=3)["cosine"].extremes[1], "cosine", side, side)
    assert pairs.tolist() == [[i, j] for _, i, j in truth]
    assert np.abs(values) == pytest.approx([value for value, _, _ in truth], rel=1e-6)
    rounded = {(i, j): v for v, i, j in _cosines(vectors)}
    assert abs(rounded[pairs[0][0], pairs[0][1]] - values[0]) > 0.01 * abs(values[0])


def _cosines(vectors: torch.Tensor) -> list[tuple[float, int, int]]:
    units = vectors / vectors.norm(dim=1, keepdim=True)
    i, j = np.triu_indices(len(vectors), 1)
    return list(zip((units @ units.T)[i, j].tolist(), i.tolist(), j.tolist(), strict=True))


def test_rows_that_may_not_be_listed_still_count() -> None:
    vectors = rows(20)
    vectors[5] = vectors[11].clone()
    listed_rows = torch.ones(20, dtype=torch.bool)
    listed_rows[5] = False
    cosine = all_pairs(PairTable("words", vectors, listed_rows), block=6)["cosine"]
    assert cosine.largest == pytest.approx(1, abs=EXACT)
    assert cosine.n == 190
    for extremes in cosine.extremes:
        assert 5 not in extremes.pairs


def test_pairs_above_a_cosine_are_counted_and_kept() -> None:
    left, right = rows(30), rows(20, seed=1)
    truth = sorted(((abs(v), i, j) for v, i, j in naive(left, right)["cosine"] if abs(v) > 0.5), reverse=True)
    one, other = PairTable("words", left, torch.zeros(30, dtype=torch.bool)), PairTable("positions", right)
    cosine = all_pairs(one, other, above=0.5, block=8)["cosine"]
    pairs, values = ordered_extremes(cosine.extremes[-1], "cosine", one, other)
    assert cosine.beyond == len(truth) > 5
    assert [tuple(pair) for pair in pairs.tolist()] == [(i, j) for _, i, j in truth]
    assert np.abs(values) == pytest.approx([value for value, _, _ in truth], rel=EXACT)


def test_histograms_hold_what_numpy_counts() -> None:
    values = np.random.default_rng(0).normal(size=5000)
    bins = Histogram(-1.0, 1.0)
    for part in np.array_split(values, 3):
        bins.add(torch.from_numpy(part))
    table = bins.table()
    assert table.iloc[0].tolist() == [-np.inf, -1, (values < -1).sum()]
    assert table.iloc[-1].tolist() == [1, np.inf, (values > 1).sum()]
    inner = table.iloc[1:-1]
    edges = [*inner["low"], inner["high"].iloc[-1]]
    assert inner["count"].tolist() == np.histogram(values, edges)[0].tolist()
    assert histogram_of(np.array([np.nan, 2.0, 2.0]))["count"].sum() == 2
    assert histogram_of(np.array([np.nan])).empty
