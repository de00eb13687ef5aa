"""The drift test: correlations over few layers that depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import t as student

from theodolite.measures.drift import (
    Correlation,
    circular_shifts,
    first_differences,
    layer_steps,
    pearson,
    permutation_p,
    spearman,
)
from theodolite.measures.formula import formula_of_column

Array = NDArray[np.float64]
ROUNDING = 1e-9
"""Relative: coefficients are ratios of float64 sums over at most 40 layers; p magnifies them near |r| = 1."""


def naive_pearson(x: Array, y: Array) -> tuple[float, float]:
    """The definition: cov over the product of standard deviations, p from Student's t."""
    n, dx, dy = len(x), x - x.mean(), y - y.mean()
    r = float((dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum()))
    if abs(r) == 1:
        return r, 0.0
    statistic = r * np.sqrt((n - 2) / (1 - r * r))
    return r, float(2 * student.sf(abs(statistic), n - 2))


def ranks(values: Array) -> Array:
    """By counting: the number of smaller values; ties have their mean rank."""
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values], dtype=np.float64)


def naive_spearman(x: Array, y: Array) -> tuple[float, float]:
    return naive_pearson(ranks(x), ranks(y))


BOTH = [(spearman, naive_spearman), (pearson, naive_pearson)]


@given(seed=st.integers(0, 10**6), layers=st.integers(5, 40), offset=st.sampled_from([0.0, 3000.0, 1e7]))
@settings(derandomize=True)
@pytest.mark.parametrize(("ours", "naive"), BOTH)
def test_coefficients_and_p_are_those_of_the_definition(
    ours, naive, seed: int, layers: int, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.gamma(2, 50, layers), rng.uniform(size=layers)
    x[1], y[2] = x[0], y[0]  # ties
    found = ours(x + offset, y)
    # An offset of 1e7 leaves 1e-9 of what varies, which is what the input itself has lost.
    assert found[:2] == pytest.approx(naive(x, y), rel=1e-6 if offset else ROUNDING, abs=1e-9)
    assert found.reason == ""


@given(seed=st.integers(0, 10**6), layers=st.integers(4, 33))
@settings(derandomize=True)
@pytest.mark.parametrize(("ours", "naive"), BOTH)
def test_shifts_are_counted_one_by_one(ours, naive, seed: int, layers: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=layers).cumsum(), rng.normal(size=layers).cumsum()
    shifted = [np.array([*x[layers - shift :], *x[: layers - shift]]) for shift in range(layers)]
    strengths = [abs(naive(one, y)[0]) for one in shifted]
    wanted = sum(one >= strengths[0] - 1e-9 for one in strengths) / layers
    found = circular_shifts(x, y, ours)
    assert found.p == pytest.approx(wanted)
    assert found.p >= found.floor == pytest.approx(1 / layers)


@pytest.mark.parametrize(("ours", "naive"), BOTH)
def test_differences_are_those_between_neighbours(ours, naive) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=12).cumsum(), rng.normal(size=12).cumsum()
    wanted = naive(np.array([x[i + 1] - x[i] for i in range(11)]), np.array([y[i + 1] - y[i] for i in range(11)]))
    assert first_differences(x, y, correlate=ours)[:2] == pytest.approx(wanted)


def test_no_difference_spans_encoder_and_decoder() -> None:
    x, y = np.array([0.0, 1, 3, 900, 904, 903]), np.array([0.0, 0.2, 0.1, -0.9, -0.5, -0.6])
    stacks = ["encoder"] * 3 + ["decoder"] * 3
    dx, dy = layer_steps(x, y, stacks)
    assert dx.tolist() == [1, 2, 4, -1]
    assert dy == pytest.approx([0.2, -0.1, 0.4, -0.1])
    apart = first_differences(x, y, stacks, pearson).coefficient
    assert apart > 0.5
    assert first_differences(x, y, None, pearson).coefficient < -0.8  # the wrong way: one leap decides


def test_a_trend_misleads_the_plain_tests_but_not_the_differences() -> None:
    """Two independent random walks, tested with a p-value that assumes independent layers."""
    rng = np.random.default_rng(0)
    walks = [(rng.normal(size=31).cumsum(), rng.normal(size=31).cumsum()) for _ in range(400)]
    plain = np.mean([spearman(x, y).p < 0.05 for x, y in walks])
    shifted = np.mean([circular_shifts(x, y).p < 0.05 for x, y in walks])
    stepped = np.mean([first_differences(x, y).p < 0.05 for x, y in walks])
    assert plain > 0.5  # where 0.05 is meant
    assert shifted < plain / 3  # a walk is not stationary, so that shifts are better and not exact
    assert stepped < 0.1  # 0.05 +- 4 sqrt(0.05 0.95 / 400)


@pytest.mark.parametrize("correlate", [spearman, pearson])
@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([], [], "fewer than three layers"),
        ([1.0], [1.0], "fewer than three layers"),
        ([1.0, 2.0], [1.0, 2.0], "fewer than three layers"),
        ([1.0, 2.0, np.nan], [1.0, 2.0, 3.0], "fewer than three layers"),
        ([1.0, 2.0, np.inf, 3.0], [1.0, np.nan, 3.0, 4.0], "fewer than three layers"),
        ([0.1, 0.1, 0.1, 0.1], [1.0, 2.0, 3.0, 4.0], "one of the two series is constant"),
        ([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0], "one of the two series is constant"),
        ([1.0, 2.0, 3.0], [1e9, 1e9, 1e9 + 1e-7], "one of the two series is constant"),
    ],
)
def test_what_is_undefined_is_nan_with_a_reason(
    correlate: Callable[..., Correlation], x: list[float], y: list[float], reason: str
) -> None:
    a, b = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    found, shifts = correlate(a, b), circular_shifts(a, b, correlate)
    assert np.isnan([found.coefficient, found.p, shifts.p, shifts.floor]).all()
    assert found.reason == shifts.reason == reason
    between = first_differences(a, b, correlate=correlate)
    assert np.isnan([between.coefficient, between.p]).all()
    assert between.reason


def test_steps_that_are_all_equal_have_no_correlation() -> None:
    even = first_differences(np.arange(6.0), np.array([0.0, 1, 3, 2, 5, 4]))
    assert np.isnan(even.coefficient)
    assert even.reason == "the steps of one series are all equal"
    few = first_differences(np.array([0.0, 1, 3]), np.array([0.0, 1, 3]))
    assert few.reason == "fewer than three steps between layers"


def test_a_missing_layer_is_skipped_and_gives_no_difference() -> None:
    x, y = np.array([1.0, 2, np.nan, 5, 4, 7]), np.array([0.1, 0.3, 0.5, 0.4, 0.35, 0.9])
    known = np.isfinite(x)
    assert spearman(x, y)[:2] == pytest.approx(naive_spearman(x[known], y[known]))
    assert circular_shifts(x, y).floor == 1 / 5
    assert layer_steps(x, y)[0].tolist() == [1, -1, 3]


def test_a_massive_norm_affects_pearson_but_not_spearman() -> None:
    """One layer 1,000 times as long: ranks do not change, and p of the shifts reflects that one layer decides."""
    rng = np.random.default_rng(5)
    x, y = rng.uniform(1, 2, 25), rng.uniform(0, 0.3, 25)
    x[20], y[20] = 3000.0, 0.95
    assert pearson(x, y).p < 1e-4
    assert abs(spearman(x, y).coefficient) < 0.5
    assert circular_shifts(x, y, pearson).p == 1 / 25


def test_perfect_agreement_of_few_layers_has_the_smallest_possible_p() -> None:
    x = np.array([1.0, 2.0, 4.0, 7.0])
    assert spearman(x, x).p == 0  # as scipy has it
    assert circular_shifts(x, x) == (0.25, 0.25, "")


def test_every_number_of_the_table_has_a_formula() -> None:
    from theodolite.studies.anisotropy.drift import NUMBERS

    assert {*NUMBERS, "shift_floor", "steps"} <= set(formula_of_column("drift"))


@pytest.mark.parametrize("layers", [3, 4, 5, 6, 7])
@pytest.mark.parametrize(("ours", "naive"), BOTH)
def test_exact_p_counts_every_order(ours, naive, layers: int) -> None:
    rng = np.random.default_rng(layers)
    x, y = rng.gamma(2, 50, layers), rng.uniform(size=layers)
    y[2] = y[0]  # a tie
    seen = abs(naive(x, y)[0])
    strong = [abs(naive(x, np.array(order))[0]) >= seen - 1e-9 for order in permutations(y)]
    assert permutation_p(x, y, ours).p == pytest.approx(np.mean(strong))


def test_perfect_agreement_of_five_layers_has_an_exact_p_above_zero() -> None:
    x = np.array([1.0, 2.0, 4.0, 7.0, 9.0])
    assert spearman(x, -x).p < 1e-20  # Student's t
    assert permutation_p(x, -x).p == pytest.approx(2 / 120)
    assert permutation_p(x[:4], x[:4]).p == pytest.approx(2 / 24)
    many = permutation_p(np.arange(11.0), np.arange(11.0))
    assert np.isnan(many.p)
    assert many.reason == "more than 10 values to permute"
    assert permutation_p(x[:2], x[:2]).reason == "fewer than three layers"


def test_the_exact_p_is_level_where_layers_are_exchangeable() -> None:
    """Of 600 pairs of unrelated series, about 5% have p <= 0.05: at most 0.05 + 4 s.d."""
    rng = np.random.default_rng(2)
    found = [permutation_p(rng.normal(size=6), rng.normal(size=6)).p <= 0.05 for _ in range(600)]
    assert 0.02 < np.mean(found) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)
