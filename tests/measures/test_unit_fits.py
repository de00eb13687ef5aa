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

from theodolite.measures.decomposition import unbiased
from theodolite.measures.unit_fits import bootstrap_errors, coefficient_of_variation, correct_slope, fit_line

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
@settings(derandomize=True)
def test_the_line_is_that_of_least_squares(seed: int, count: int, offset: float) -> None:
    m, v = units(seed, count)
    found, theirs = fit_line(m + offset, v), linregress(m + offset, v)
    assert found.slope == pytest.approx(
        theirs.slope, rel=1e-7
    )  # linregress itself rounds where the offset is large
    assert found == pytest.approx(oracles.line(m + offset, v), rel=ROUNDING, abs=ROUNDING)
    assert found.r2 == pytest.approx(theirs.rvalue**2, rel=1e-7)


@given(seed=st.integers(0, 10**6))
@settings(derandomize=True)
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


def make_noisy_units(seed: int, *, units: int, most: int, sample: int) -> dict[str, np.ndarray]:
    """Return units with V = 1 - M and n between 10 and `most`, as they are measured, and a sample of vectors."""
    rng = np.random.default_rng(seed)
    dim, n = 32, rng.integers(10, most + 1, units)
    true = np.clip(rng.normal(0.45, 0.1, units), 0.1, 0.8)
    mean = rng.normal(size=(units, dim)) / np.sqrt(dim) + 2 * np.eye(dim)[0]
    mean *= np.sqrt(true)[:, None] / np.linalg.norm(mean, axis=1, keepdims=True)
    shares = np.exp(-np.arange(dim) / 8)
    unit = np.repeat(np.arange(units), n)
    x = rng.normal(size=(len(unit), dim)) * np.sqrt(shares / shares.sum())
    x = mean[unit] + x * np.sqrt(1 - true)[unit, None]
    found = np.zeros((units, dim))
    np.add.at(found, unit, x)
    found /= n[:, None]
    m = np.square(found).sum(1)
    v = np.bincount(unit, np.square(x).sum(1)) / n - m
    kept = rng.permutation(len(unit))[:sample]
    return {"n": n, "m": m, "v": v, "unit": unit[kept], "means": found[unit[kept]], "vectors": x[kept]}


@pytest.mark.slow
@pytest.mark.parametrize(("units", "sample"), [(800, 4096), (300, 600)])
def test_the_corrected_slope_has_no_bias_and_honest_intervals(units: int, sample: int) -> None:
    """The true slope is -1, n is 10 to 30. The slope of the unbiased M_u and V_u is far off."""
    found, plain = [], []
    for seed in range(200):
        made = make_noisy_units(seed, units=units, most=30, sample=sample)
        found.append(correct_slope(**made)[:2])
        m_u, v_u = unbiased(made["n"], made["m"], made["v"])
        plain.append((fit_line(m_u, v_u).slope, bootstrap_errors(m_u, v_u)["tradeoff_slope_se"]))
    value, error = np.array(found).T
    assert abs(value.mean() + 1) < 4 * value.std() / np.sqrt(200)
    assert abs(value.mean() + 1) < 0.02
    covered = np.mean(np.abs(value + 1) < 1.96 * error)
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200) < covered <= 1  # at least 0.89
    value, error = np.array(plain).T
    assert value.mean() + 1 > 0.2
    assert np.mean(np.abs(value + 1) < 1.96 * error) < 0.05


def test_the_noise_of_a_unit_is_that_of_its_jackknife() -> None:
    """With all vectors in the sample: the definition, leaving out one vector after the other."""
    rng = np.random.default_rng(1)
    n, centres = np.array([3, 5, 9, 12, 20, 30]), rng.normal(3, 1, (6, 4))
    rows = [centre + 0.2 * rng.normal(size=(k, 4)) for k, centre in zip(n, centres, strict=True)]

    def pair(x: np.ndarray) -> np.ndarray:
        products = x @ x.T
        k = len(x)
        m = (products.sum() - np.trace(products)) / (k * (k - 1))
        return np.array([m, np.trace(products) / k - m])

    noise, whole = [], np.array([pair(x) for x in rows])
    for x, at in zip(rows, whole, strict=True):
        left = np.array([pair(np.delete(x, i, axis=0)) - at for i in range(len(x))])
        noise.append((len(x) - 1) / len(x) * left.T @ left)
    (s, c), _ = np.mean(noise, axis=0)
    cov = np.cov(whole.T)
    expected = (cov[0, 1] - c) / (cov[0, 0] - s)
    means = np.array([x.mean(0) for x in rows])
    m = np.square(means).sum(1)
    v = np.array([np.square(x).sum(1).mean() for x in rows]) - m
    unit = np.repeat(np.arange(6), n)
    found = correct_slope(n, m, v, unit=unit, means=means[unit], vectors=np.concatenate(rows))
    assert found.value == pytest.approx(expected, rel=1e-9)


def test_a_slope_that_noise_hides_is_undefined_with_a_reason() -> None:
    made = make_noisy_units(0, units=200, most=12, sample=2000)
    few = {name: made[name][:20] for name in ("unit", "means", "vectors")}
    assert correct_slope(made["n"], made["m"], made["v"], **few).reason == (
        "fewer than 30 vectors of the sample belong to units of the fit"
    )
    rng = np.random.default_rng(0)
    x = rng.normal(1.0, 1.0, (100, 10, 3))  # all units are the same
    unit, means = np.repeat(np.arange(100), 10), x.mean(1)
    m, v = np.square(means).sum(1), x.var(1).sum(1)
    same = correct_slope(np.full(100, 10), m, v, unit=unit, means=means[unit], vectors=x.reshape(-1, 3))
    assert np.isnan(same.value)
    assert same.reason == "the noise of M is most of its variance over units"
