"""The line of V on M, the variation of Q, and their error bars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import linregress
from tests import oracles
from tests.devices import DEVICES

from theodolite.measures.tradeoff import bootstrap_errors, coefficient_of_variation, fit_line

ROUNDING = 1e-10
"""Relative: float64 sums about the mean; slope and R^2 are ratios of them, and R^2 may be small."""
BOOTSTRAP = 0.2
"""Relative: a standard deviation of 200 resamples is itself known to 1/sqrt(400) = 5%, and the bootstrap of 400
units to some percent more; some three of these together."""

Array = NDArray[np.float64]


def units(seed: int, count: int = 400) -> tuple[Array, Array]:
    """M and V of units whose Q is 100, give or take."""
    rng = np.random.default_rng(seed)
    m = rng.gamma(5, 8, size=count)
    return m, 100 - m + rng.normal(scale=6, size=count)


@given(seed=st.integers(0, 10**6), count=st.integers(3, 300), offset=st.sampled_from([0.0, 1e3, 1e6]))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_the_line_is_that_of_least_squares(seed: int, count: int, offset: float) -> None:
    m, v = units(seed, count)
    found, theirs = fit_line(m + offset, v), linregress(m + offset, v)
    assert found.slope == pytest.approx(
        theirs.slope, rel=1e-7
    )  # linregress itself rounds where the offset is large
    assert found == pytest.approx(oracles.line(m + offset, v), rel=ROUNDING, abs=ROUNDING)
    assert found.r2 == pytest.approx(theirs.rvalue**2, rel=1e-7)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_slope_is_minus_one_plus_the_slope_of_q_on_m(seed: int) -> None:
    """V = Q - M, so cov(V, M)/var(M) = cov(Q, M)/var(M) - 1."""
    m, v = units(seed)
    covariance = np.cov(np.stack([m + v, m]), bias=True)
    assert fit_line(m, v).slope == pytest.approx(-1 + covariance[0, 1] / covariance[1, 1], rel=ROUNDING)


def test_a_constant_q_makes_a_slope_of_minus_one() -> None:
    m = np.linspace(1, 50, 30)
    assert fit_line(m, 100 - m) == pytest.approx((-1, 1))
    assert coefficient_of_variation(np.full(30, 100.0)) == 0


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9])
def test_a_line_through_equal_m_is_undefined(value: float) -> None:
    found = fit_line(np.full(7, value), np.arange(7.0))
    assert np.isnan(found).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9])
def test_equal_v_have_a_slope_of_zero_and_no_r2(value: float) -> None:
    found = fit_line(np.arange(7.0), np.full(7, value))
    assert found.slope == pytest.approx(0, abs=ROUNDING * max(value, 1))
    assert np.isnan(found.r2)


def test_the_variation_is_undefined_where_the_mean_is_zero() -> None:
    assert np.isnan(coefficient_of_variation(np.zeros(4)))
    values = np.random.default_rng(0).gamma(3, size=50)
    assert coefficient_of_variation(values) == pytest.approx(oracles.coefficient_of_variation(values))


def test_bootstrap_errors_equal_the_textbook_formula() -> None:
    """A slope: sigma/sqrt(n var(M)) with noise of one size; a CV of normal Q: CV sqrt(1/2 + CV^2)/sqrt(n)."""
    rng, count, sigma = np.random.default_rng(1), 400, 5.0
    m = rng.normal(50, 10, size=count)
    v = 100 - m + rng.normal(scale=sigma, size=count)
    errors = bootstrap_errors(m, v)
    assert errors["tradeoff_slope_se"] == pytest.approx(sigma / (10 * np.sqrt(count)), rel=BOOTSTRAP)
    variation = sigma / 100
    expected = variation * np.sqrt(0.5 + variation**2) / np.sqrt(count)
    assert errors["q_cv_se"] == pytest.approx(expected, rel=BOOTSTRAP)


def test_bootstrap_errors_equal_the_spread_over_other_units() -> None:
    drawn = [units(seed) for seed in range(300)]
    lines = np.array([fit_line(m, v) for m, v in drawn])
    means = {
        key: np.mean([bootstrap_errors(m, v)[key] for m, v in drawn[:20]]) for key in bootstrap_errors(*drawn[0])
    }
    assert means["tradeoff_slope_se"] == pytest.approx(lines[:, 0].std(), rel=BOOTSTRAP)
    assert means["tradeoff_r2_se"] == pytest.approx(lines[:, 1].std(), rel=BOOTSTRAP)
    assert means["q_cv_se"] == pytest.approx(
        np.std([coefficient_of_variation(m + v) for m, v in drawn]), rel=BOOTSTRAP
    )


@pytest.mark.parametrize("count", [3, 4, 60])
@pytest.mark.parametrize("seed", range(4))
def test_the_matrix_products_are_the_resamples(seed: int, count: int) -> None:
    """Also where one of three units is drawn three times, which has no line: rounding must not give it one."""
    m, v = units(seed, count)
    rng = np.random.default_rng(0)
    slopes, ratios, variations = [], [], []
    for drawn in rng.integers(count, size=(200, count)):
        variations.append(oracles.coefficient_of_variation((m + v)[drawn]))
        if len(set(drawn)) > 1:
            slope, ratio = oracles.line(m[drawn], v[drawn])
            slopes.append(slope)
            ratios.append(ratio)
    truth = {"q_cv_se": variations, "tradeoff_slope_se": slopes, "tradeoff_r2_se": ratios}
    # 1e-6: two units that are nearly one leave few digits to a slope.
    expected = {name: np.std(values, ddof=1) for name, values in truth.items()}
    assert bootstrap_errors(m, v) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_the_bootstrap_is_the_same_on_a_device(device: str) -> None:
    assert bootstrap_errors(*units(3), device=device) == pytest.approx(bootstrap_errors(*units(3)), rel=ROUNDING)


def test_the_bootstrap_is_the_same_every_time() -> None:
    assert bootstrap_errors(*units(3)) == bootstrap_errors(*units(3))
