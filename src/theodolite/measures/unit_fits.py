"""The trade-off between M and V over units, and the coefficient of variation of Q."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.devices import to_device
from theodolite.measures.formula import formula
from theodolite.measures.resampling import MAX_CACHED, compact_counts, finite_spread
from theodolite.measures.uncertainty import Estimate
from theodolite.measures.unit_sums import Sums, like, to_numpy

Array = NDArray[np.float64]
PAPER = "Yamagiwa and Shimodaira 2024, figure 4"
RESAMPLES = 200
ROUNDING = 1e-12  # relative rounding of a float64 sum E x^2
MIN_VECTORS = 30
"""Vectors of the sample from which the noise of M and V is estimated, at least."""
MAX_NOISE = 0.8
"""Largest share of noise in the variance of M over units with which a corrected slope is reported."""


class Line(NamedTuple):
    """A least-squares line's slope and coefficient of determination; NaN where undefined."""

    slope: float
    r2: float


@formula(
    "q-cv/frequent",
    "q_cv",
    definition="Population standard deviation of Q(X_t) over its mean, units with 1 <= log10 n <= 5, each once.",
    cost="exact; O(units)",
    citation=PAPER,
    error="bootstrap over units, 200 resamples (q_cv_se)",
)
def coefficient_of_variation(values: Array) -> float:
    """Return s.d./mean; NaN if the mean is 0. (units,)

    >>> coefficient_of_variation(np.array([1.0, 3.0]))
    0.5
    """
    mean = values.mean()
    return float(values.std() / mean) if mean > 0 else float("nan")


@formula(
    "tradeoff/v-on-m",
    "tradeoff_slope",
    "tradeoff_r2",
    definition="Slope and R^2 of V(X_t) on M(X_t), least squares with intercept, units with 1 <= log10 n <= 5.",
    cost="exact; O(units)",
    citation=PAPER,
    error="bootstrap over units, 200 resamples (tradeoff_slope_se, tradeoff_r2_se)",
)
def fit_line(x: Array, y: Array) -> Line:
    """Fit y = a + slope x by least squares. NaN if x does not vary; R^2 also if y does not. (units,) each

    >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([5.0, 4.0, 3.0]))
    Line(slope=-1.0, r2=1.0)
    """
    fits = fit_lines(np.ones((1, len(x))), x, y)
    return Line(float(fits.slope[0]), float(fits.r2[0]))


@formula(
    "tradeoff/noise-corrected",
    "tradeoff_slope_corrected",
    definition="Slope of V_u on M_u over the same units, corrected for their noise: (cov(M_u, V_u) - c)/"
    "(var(M_u) - s), where s and c are the mean over units of the sampling variance of M_u and of its covariance "
    "with V_u. A noisy M flattens the plain slope, also with the unbiased M_u and V_u. Each sampled vector x "
    "estimates both for its unit by (n - 1) (M_u without x - M_u)^2, and so on: a jackknife, weighted by 1/n so "
    "that units count alike. Occurrences count as independent: if they are clustered by document, too little is "
    "corrected. Undefined if noise is more than 80% of the variance of M_u.",
    cost="from the sample and the sums by unit",
    citation="Fuller 1987, Measurement Error Models, section 1.2; Theodolite",
    error="delta method over units and vectors of the sample (tradeoff_slope_corrected_se)",
)
def correct_slope(
    n: NDArray[np.int64], m: Array, v: Array, *, unit: NDArray[np.int64], means: Sums, vectors: Sums
) -> Estimate:
    """Return the slope of V_u on M_u without the effect of their noise, and its standard error.

    n, m, v: (units,) of the units of the fit, m and v biased; n >= 3. unit: (vectors,) the index of the unit of
    each sampled vector; means: (vectors, dim) the mean of that unit; vectors: (vectors, dim). Both may be on a
    device.

    >>> rng = np.random.default_rng(0)
    >>> n, true = np.full(2000, 20), rng.uniform(3, 7, 2000)  # one coordinate, V = 50 - M: the slope is -1
    >>> x = true[:, None] + np.sqrt(50 - true**2)[:, None] * rng.normal(size=(2000, 20))
    >>> unit, vectors = np.repeat(np.arange(2000), 20), x.reshape(-1, 1)
    >>> m, v = x.mean(1) ** 2, x.var(1)
    >>> found = correct_slope(n, m, v, unit=unit, means=x.mean(1)[unit, None], vectors=vectors)
    >>> round(fit_line(m, v).slope, 1), round(found.value, 1)
    (-0.6, -1.0)
    """
    if len(unit) < MIN_VECTORS:
        return Estimate.undefined(f"fewer than {MIN_VECTORS} vectors of the sample belong to units of the fit")
    k = n[unit].astype(np.float64)
    mean, x = cast(Any, means), cast(Any, vectors)
    step = (mean - x) / like(means, k - 1)[:, None]  # from the mean to the mean without x
    dm = to_numpy(((2 * mean + step) * step).sum(axis=1))
    dq = ((m + v)[unit] - to_numpy((x * x).sum(axis=1))) / (k - 1)
    dm += v[unit] / (k - 1) - (v[unit] + dq - dm) / (k - 2)  # of M_u: M - V/(n - 1)
    noise = (k - 1) * dm * np.stack([dm, dq - dm])  # one estimate per vector of s and of c
    weights = 1 / k / (1 / k).sum()
    s, c = noise @ weights
    x, y = m - v / (n - 1), v + v / (n - 1)
    x, y = x - x.mean(), y - y.mean()
    units = len(n)
    xx, xy = x @ x / (units - 1), x @ y / (units - 1)
    if not xx - s > (1 - MAX_NOISE) * xx:
        return Estimate.undefined("the noise of M is most of its variance over units")
    slope = (xy - c) / (xx - s)
    of_units = x * y - slope * x * x - (xy - slope * xx)
    of_vectors = weights * (noise[1] - slope * noise[0] - (c - slope * s))
    variance = np.square(of_units).sum() / units**2 + np.square(of_vectors).sum()
    return Estimate(float(slope), float(np.sqrt(variance) / (xx - s)))


def bootstrap_errors(
    m: Array, v: Array, *, seed: int = 0, resamples: int = RESAMPLES, device: str | torch.device | None = None
) -> dict[str, float]:
    """Return the bootstrap standard errors of q_cv, slope and R^2 over units. m, v: (units,)

    A resample is a row of draw counts, so all fits are one matrix product, computed on `device` if given.
    O(resamples x units).
    """
    units, q = len(m), m + v
    columns = np.concatenate([np.stack([q, np.square(q - q.mean())], axis=1), _powers(m, v)], axis=1)
    means = _sum_draws(columns, seed, resamples, device) / units
    mean, second = means[:, 0], means[:, 1]
    spread = np.sqrt(np.maximum(second - np.square(mean - q.mean()), 0))
    slopes, r2 = _fit_from_means(means[:, 2:])
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "q_cv_se": finite_spread(spread / mean),
            "tradeoff_slope_se": finite_spread(slopes),
            "tradeoff_r2_se": finite_spread(r2),
        }


def _sum_draws(columns: Array, seed: int, resamples: int, device: str | torch.device | None) -> Array:
    """Return the sum of each column over the units of every resample. (units, columns) -> (resamples, columns)"""
    drawn = _draw_units(len(columns), seed, resamples)
    if device is None:
        return np.asarray(drawn.astype(np.float64) @ columns)
    weights, values = (
        to_device(torch.from_numpy(part), torch.device(device)).double() for part in (drawn, columns)
    )
    return np.asarray((weights @ values).cpu().numpy())


def resample_counts(units: int, *, seed: int = 0, resamples: int = RESAMPLES) -> Array:
    """Return how often each unit is drawn in each resample with replacement. -> (resamples, units)"""
    return _draw_units(units, seed, resamples).astype(np.float64)


def _draw_units(units: int, seed: int, resamples: int) -> NDArray[np.integer[Any]]:
    draw = _cached_draws if units * resamples <= MAX_CACHED else _generate_draws
    return draw(units, seed, resamples)


def _generate_draws(units: int, seed: int, resamples: int) -> NDArray[np.integer[Any]]:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(units, size=(resamples, units)) + units * np.arange(resamples)[:, None]
    return compact_counts(np.bincount(drawn.ravel(), minlength=resamples * units).reshape(resamples, units))


_cached_draws = lru_cache(maxsize=3)(_generate_draws)


class Lines(NamedTuple):
    """Slopes and coefficients of determination of many lines; NaN if undefined."""

    slope: Array
    r2: Array


def fit_lines(weights: Array, x: Array, y: Array) -> Lines:
    """Fit a weighted line per row of weights, for each column of x and y where there are several.

    weights: (fits, units), x and y: (units,) -> (fits,) each, or (units, columns) -> (fits, columns) each.
    """
    total = weights.sum(axis=1).reshape(-1, *(1,) * x.ndim)
    sums = _powers(x, y)
    means = weights @ sums.reshape(len(x), -1)  # one product: the weights are large and are read once
    return _fit_from_means(means.reshape(len(weights), *sums.shape[1:]) / total)


def _powers(x: Array, y: Array) -> Array:
    """Return the terms of a line fit by unit: x, y, x^2, y^2 and xy. (units, ...) each -> (units, 5, ...)"""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)  # centred, so that the products do not cancel
    return np.stack([x, y, np.square(x), np.square(y), x * y], axis=1)


def _fit_from_means(means: Array) -> Lines:
    """Return the lines from the means of these terms. (fits, 5, ...) -> (fits, ...) each"""
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = np.moveaxis(means, 1, 0)
    xx, yy = _variance(mean_xx, mean_x), _variance(mean_yy, mean_y)
    xy = mean_xy - mean_x * mean_y
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(xx > 0, xy / xx, np.nan)
        r2 = np.where((xx > 0) & (yy > 0), np.square(xy) / (xx * yy), np.nan)
    return Lines(slope, r2)


def _variance(second: Array, mean: Array) -> Array:
    """Return E x^2 - (E x)^2, 0 within rounding: a resample may consist of one unit drawn many times. (fits,)"""
    variance = second - np.square(mean)
    return np.where(variance > ROUNDING * second, variance, 0.0)
