"""Sums over pairs: merged parts equal the whole, and all moments equal their definitions."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.statistics.pairs import PairSums

FIELDS = "sum_x sum_y products squares_x squares_y x_by_square y_by_square square_products".split()


def make_rows(n: int, dim_x: int, dim_y: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dim_x, generator=generator, dtype=torch.float64) + 5
    y = torch.randn(n, dim_y, generator=generator, dtype=torch.float64) - 3
    return x, y


@given(n=st.integers(0, 30), cuts=st.lists(st.integers(0, 30), max_size=6), seed=st.integers(0, 99))
def test_any_split_equals_the_whole(n: int, cuts: list[int], seed: int) -> None:
    x, y = make_rows(n, 3, 4, seed)
    centres = torch.full((3,), 5.0), torch.full((4,), -3.0)
    whole, merged = PairSums(*centres), PairSums(*centres)
    whole.update(x, y)
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    for start, stop in pairwise(edges):
        part = PairSums(*centres)
        part.update(x[start:stop], y[start:stop])
        merged.merge(part)
    assert merged.n == whole.n == n
    for name in FIELDS:
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=1e-9)


def test_merging_an_empty_part_changes_nothing() -> None:
    x, y = make_rows(9, 2, 3, 0)
    sums = PairSums(x.mean(0), y.mean(0))
    sums.update(x, y)
    before = [getattr(sums, name).clone() for name in FIELDS]
    sums.merge(PairSums(x.mean(0), y.mean(0)))
    assert all(torch.equal(getattr(sums, name), value) for name, value in zip(FIELDS, before, strict=True))


def test_moments_equal_their_definitions() -> None:
    x, y = make_rows(50, 3, 4, 1)
    sums = PairSums(x[0], y[0])
    sums.update(x, y)
    own = (x - x.mean(0)).T @ (y - y.mean(0)) / 50
    a, b = torch.ones(3, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    torch.testing.assert_close(sums.mean_x(), x.mean(0))
    torch.testing.assert_close(sums.mean_y(), y.mean(0))
    torch.testing.assert_close(sums.covariance(), own)
    torch.testing.assert_close(sums.covariance(a, b), (x - a).T @ (y - b) / 50)
    assert sums.variance_y() == pytest.approx(float((y - y.mean(0)).square().sum(1).mean()))


def test_sums_about_other_centres_are_not_merged() -> None:
    with pytest.raises(ValueError, match="different centres"):
        PairSums(torch.zeros(2), torch.zeros(2)).merge(PairSums(torch.ones(2), torch.zeros(2)))


@given(seed=st.integers(0, 99), far=st.sampled_from([0.0, 1.0, 1000.0]))
@settings(derandomize=True)
def test_sums_about_another_centre_are_those_of_the_same_rows(seed: int, far: float) -> None:
    random = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(20, dim, generator=random, dtype=torch.float64) for dim in (5, 3))
    there = torch.full((5,), far).double(), torch.randn(3, generator=random, dtype=torch.float64)
    moved, direct = PairSums(torch.zeros(5), torch.ones(3)), PairSums(*there)
    for sums in (moved, direct):
        sums.update(x, y)
    moved.recentre(*there)
    for name, expected in direct.state().items():
        size = float(expected.abs().max()) if expected.numel() else 0.0
        torch.testing.assert_close(moved.state()[name], expected, rtol=1e-11, atol=1e-11 * max(size, 1.0))
    with_other = PairSums(*there)
    with_other.merge(moved)
    assert with_other.n == 20


def test_a_state_restores_the_sums_bit_for_bit() -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(9, 4, generator=random), torch.randn(9, 2, generator=random)
    sums, restored = PairSums(x[0], y[0]), PairSums(x[0], y[0])
    sums.update(x, y)
    restored.load(sums.state())
    for one in (sums, restored):
        one.update(x, y)
    assert all(torch.equal(sums.state()[name], part) for name, part in restored.state().items())
