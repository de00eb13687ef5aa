"""Q = M + V, V = V_W + V_B, and what small n does to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import oracles

from theodolite.measures.decomposition import decomposition, frequent, unbiased, unit_moments

ROUNDING = 1e-12
"""Relative: float64 sums of some hundred terms."""
FOUR_SIGMA = 4
"""Standard errors between a simulated mean and the truth; seeds are fixed."""

Array = NDArray[np.float64]
Sums = tuple[NDArray[np.int64], Array, Array, Array]


def sums(x: Array, unit: NDArray[np.int64], centre: Array) -> Sums:
    """n, sum of x - c, sum of |x - c|^2 by unit, and the centre."""
    codes = np.unique(unit)
    y = [x[unit == code] - centre for code in codes]
    n = np.array([len(rows) for rows in y])
    return n, np.array([rows.sum(0) for rows in y]), np.array([np.square(rows).sum() for rows in y]), centre


def cloud(seed: int, rows: int = 400, dim: int = 6, units: int = 25) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    unit = rng.integers(units, size=rows)
    return rng.normal(size=(units, dim))[unit] * 2 + rng.normal(size=(rows, dim)) + 1, unit


@given(seed=st.integers(0, 10**6), far=st.sampled_from([0.0, 1.0, 30.0]))
@settings(derandomize=True)
def test_everything_is_as_defined_and_adds_up(seed: int, far: float) -> None:
    x, unit = cloud(seed)
    given_sums = sums(x, unit, x.mean(0) + far)
    units = unit_moments(*given_sums)
    truth = oracles.qmv_by_unit(x, unit).values()
    for found, name in zip(units, "qmv", strict=True):
        assert found == pytest.approx(
            [getattr(parts, name) for parts in truth], rel=ROUNDING, abs=ROUNDING * far**2
        )
    np.testing.assert_array_equal(units.q, units.m + units.v)
    whole, expected = decomposition(*given_sums, units.v), oracles.decomposition(x, unit)
    for name in whole._fields:
        assert getattr(whole, name) == pytest.approx(getattr(expected, name), rel=ROUNDING, abs=ROUNDING * far**2)
    assert whole.q == pytest.approx(whole.m + whole.v, rel=ROUNDING)
    assert whole.v == pytest.approx(whole.v_within + whole.v_between, rel=ROUNDING)


def test_weights_are_occurrences() -> None:
    """One unit nine times at 0 and one once at 10: V_B = 0.9 x 1 + 0.1 x 81."""
    x, unit = np.array([[0.0]] * 9 + [[10.0]]), np.array([0] * 9 + [1])
    given_sums = sums(x, unit, np.zeros(1))
    whole = decomposition(*given_sums, unit_moments(*given_sums).v)
    assert whole == pytest.approx((10, 1, 9, 0, 9))


def test_one_unit_has_nothing_between() -> None:
    x, _ = cloud(1)
    given_sums = sums(x, np.zeros(len(x), dtype=int), np.ones(6))
    whole = decomposition(*given_sums, unit_moments(*given_sums).v)
    assert whole.v_between == 0


def test_one_occurrence_has_no_spread_despite_rounding() -> None:
    x = np.array([[0.1, 0.2, 0.3]])
    n, total, squares, centre = sums(x, np.array([0]), np.zeros(3))
    assert unit_moments(n, total, squares * (1 + 1e-15), centre).v == [0]


@pytest.mark.parametrize("n", [6692, 100_000])
def test_equal_vectors_have_no_spread_although_their_sum_is_rounded_n_times(n: int) -> None:
    x = np.random.default_rng(0).normal(size=(40, 8)) * 0.02
    total = np.zeros_like(x)
    squares = np.zeros(len(x))
    for _ in range(n):
        total += x
        squares += np.square(x).sum(1)
    assert not unit_moments(np.full(len(x), n), total, squares, np.zeros(8)).v.any()


def test_spread_is_never_below_zero() -> None:
    x = np.tile(np.array([[1e3, 0.1, 7e-3]]), (17, 1))
    assert unit_moments(*sums(x, np.zeros(17, dtype=int), np.array([-3.0, 0.7, 0.0]))).v == [0]


def test_a_small_spread_far_from_the_centre_is_kept() -> None:
    """V = 3e-12 Q is still above the 1e-12 Q that is promised, so it may not be taken for rounding."""
    x = np.array([[1.0, 1.0], [1.0, -1.0]] * 50) * [1, np.sqrt(3e-12)]
    v = unit_moments(*sums(x, np.zeros(100, dtype=int), np.zeros(2))).v
    assert v == pytest.approx([3e-12], abs=1e-12)


def test_small_sample_bias_is_corrected() -> None:
    """Of n draws from N(mu, 1), M is too large by V/n and V too small by it; M_u and V_u are neither."""
    rng, dim, n, times = np.random.default_rng(0), 4, 3, 20_000
    mean = np.full(dim, 0.5)
    unit = np.repeat(np.arange(times), n)
    x = mean + rng.normal(size=(times * n, dim))
    draws = x.reshape(times, n, dim)
    moments = unit_moments(np.full(times, n), draws.sum(1), np.square(draws).sum((1, 2)), np.zeros(dim))
    m_u, v_u = unbiased(np.full(times, n), moments.m, moments.v)
    true_m, true_v = mean @ mean, dim
    assert abs(m_u.mean() - true_m) < FOUR_SIGMA * m_u.std() / np.sqrt(times)
    assert abs(v_u.mean() - true_v) < FOUR_SIGMA * v_u.std() / np.sqrt(times)
    assert abs(moments.m.mean() - true_m - true_v / n) < FOUR_SIGMA * moments.m.std() / np.sqrt(times)
    assert abs(moments.v.mean() - true_v + true_v / n) < FOUR_SIGMA * moments.v.std() / np.sqrt(times)
    assert abs(moments.m.mean() - true_m) > FOUR_SIGMA * moments.m.std() / np.sqrt(times)
    assert m_u + v_u == pytest.approx(moments.q)
    assert len(unit) == times * n


def test_unbiased_is_undefined_for_one_occurrence() -> None:
    m_u, v_u = unbiased(np.array([1, 2]), np.array([4.0, 4.0]), np.array([0.0, 1.0]))
    assert np.isnan([m_u[0], v_u[0]]).all()
    assert (m_u[1], v_u[1]) == (3, 2)


def test_frequent_is_from_ten_to_a_hundred_thousand() -> None:
    assert frequent(np.array([1, 9, 10, 100_000, 100_001])).tolist() == [False, False, True, True, False]
