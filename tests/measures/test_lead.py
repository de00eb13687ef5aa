"""Which of two series comes first, and when that is undecided."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from theodolite.measures.lead import HalfWay, compare_order, half_way, lagged_correlation

STEPS = np.array([0.0, 1, 2, 4, 8, 16, 32, 64, 128, 256])


def rising(middle: float, sharp: float = 2.0) -> np.ndarray:
    return 1 / (1 + (middle / np.maximum(STEPS, 1e-9)) ** sharp)


def test_the_half_way_step_is_between_two_checkpoints() -> None:
    for middle in (3.0, 20.0, 100.0):
        for sign in (1, -1):  # entropy falls as attention gets sharp
            half = half_way(STEPS, sign * rising(middle))
            assert half.low < middle * 1.2
            assert half.high > middle * 0.8
            assert half.low < half.step <= half.high
            values = rising(middle)
            share = np.interp(half.step, STEPS, (values - values[0]) / (values[-1] - values[0]))
            assert share == pytest.approx(0.5)


def test_the_first_crossing_counts() -> None:
    assert half_way(np.arange(5.0), np.array([0, 0.8, 0.3, 0.7, 1.0]))[:3] == (pytest.approx(0.625), 0, 1)


def test_the_rise_counts_if_a_series_rises_and_falls() -> None:
    """The tempting definition, half of the change to the last value, would be undefined or find the fall."""
    up_and_down = np.array([0.0, 1, 2, 10, 9, 4, 2, 1, 0.5, 0.1])
    half = half_way(STEPS, up_and_down)
    assert (half.low, half.high, half.peak, half.way) == (2, 4, 4, 10)
    assert half_way(STEPS, -up_and_down)[:3] == half[:3]


@pytest.mark.parametrize(
    ("values", "errors", "reason"),
    [
        ([1.0, 2.0], None, "fewer than three steps"),
        ([], None, "fewer than three steps"),
        ([1.0, np.nan, 2.0], None, "fewer than three steps"),
        ([1.0, 1.0, 1.0], None, "it stays where it began"),
        ([1.0, 1.5, 2.0], [0.5, 0.5, 0.5], "it stays where it began, within its error"),
        ([0.0, 1.0, -1.0, 1.0, -1.0, 1.1], None, "it goes back and forth"),
    ],
)
def test_series_without_a_half_way_step(values, errors, reason: str) -> None:
    steps = np.arange(float(len(values)))
    half = half_way(steps, np.array(values), None if errors is None else np.array(errors))
    assert half.reason == reason
    assert np.isnan(half.step)
    assert compare_order(half, half_way(STEPS, rising(4))) == "undecided"


def test_order_is_reported_only_for_disjoint_intervals() -> None:
    early, late = half_way(STEPS, rising(3)), half_way(STEPS, rising(100))
    assert compare_order(early, late) == "before"
    assert compare_order(late, early) == "after"
    near = half_way(STEPS, rising(2.9))
    assert near.step != early.step  # the tempting way compares these and calls it an order
    assert compare_order(early, near) == "undecided"
    assert compare_order(HalfWay(1, 0, 2, 1.0, 9), HalfWay(3, 2, 4, 1.0, 9)) == "before"


def test_a_planted_lag_is_found() -> None:
    rng = np.random.default_rng(0)
    changes = rng.normal(size=40)
    first = np.cumsum(changes)
    second = np.cumsum(np.roll(changes, 1))  # a step later
    found = {lag: lagged_correlation(first, second, lag) for lag in (-1, 0, 1)}
    assert found[1].coefficient == pytest.approx(1.0)
    assert found[1].pairs == 38
    assert found[1].low > 0.99
    for lag in (-1, 0):
        assert abs(found[lag].coefficient) < 0.5
        assert found[lag].low < 0 < found[lag].high
    naive = stats.spearmanr(np.diff(first)[1:], np.diff(second)[:-1]).statistic
    assert found[-1].coefficient == pytest.approx(naive)


def test_the_interval_is_fishers() -> None:
    rng = np.random.default_rng(1)
    first, second = np.cumsum(rng.normal(size=12)), np.cumsum(rng.normal(size=12))
    found = lagged_correlation(first, second, 0)
    reach = 1.96 * np.sqrt(1.06 / (11 - 3))
    assert np.arctanh(found.high) - np.arctanh(found.coefficient) == pytest.approx(reach)
    assert np.arctanh(found.coefficient) - np.arctanh(found.low) == pytest.approx(reach)


def test_few_steps_have_no_lag() -> None:
    assert lagged_correlation(np.arange(6.0) ** 2, np.arange(6.0), 0).reason == "fewer than six pairs of changes"
    assert (
        lagged_correlation(np.arange(9.0), np.arange(9.0) ** 2, 0).reason
        == "one of the two changes equally at every step"
    )
    assert lagged_correlation(np.array([]), np.array([]), 1).pairs == 0
    assert np.isnan(lagged_correlation(np.arange(3.0), np.arange(3.0), -1).coefficient)
