"""The trade-off between M and V over units, and how little Q varies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PAPER = "Yamagiwa and Shimodaira 2024, figure 4"
RESAMPLES = 200


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
    """Return s.d./mean, NaN where the mean is 0. (units,)

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
def line(x: Array, y: Array) -> Line:
    """Fit y = a + slope x. NaN where x does not vary; R^2 also where y does not. (units,) each

    >>> line(np.array([0.0, 1.0, 2.0]), np.array([5.0, 4.0, 3.0]))
    Line(slope=-1.0, r2=1.0)
    """
    fits = _lines(np.ones((1, len(x))), x, y)
    return Line(float(fits.slope[0]), float(fits.r2[0]))


def bootstrap(m: Array, v: Array, *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, float]:
    """Return the standard errors of q_cv, slope and R^2 when units are drawn again with replacement.

    A resample is a row of weights, how often each unit was drawn, so all fits are matrix products.
    O(resamples x units).
    """
    rng = np.random.default_rng(seed)
    units = len(m)
    drawn = rng.integers(units, size=(resamples, units)) + units * np.arange(resamples)[:, None]
    weights = np.bincount(drawn.ravel(), minlength=resamples * units).reshape(resamples, units).astype(np.float64)
    q = m + v
    mean = weights @ q / units
    spread = np.sqrt(np.maximum(weights @ np.square(q - q.mean()) / units - np.square(mean - q.mean()), 0))
    slopes, r2 = _lines(weights, m, v)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "q_cv_se": _spread(spread / mean),
            "tradeoff_slope_se": _spread(slopes),
            "tradeoff_r2_se": _spread(r2),
        }


class _Lines(NamedTuple):
    slope: Array
    r2: Array


def _lines(weights: Array, x: Array, y: Array) -> _Lines:
    """Fit one weighted line per row of weights. (fits, units), (units,), (units,) -> (fits,) each."""
    x, y = x - x.mean(), y - y.mean()  # near the middle, so that the products do not cancel
    total = weights.sum(axis=1)
    mean_x, mean_y = weights @ x / total, weights @ y / total
    xx = weights @ np.square(x) / total - np.square(mean_x)
    yy = weights @ np.square(y) / total - np.square(mean_y)
    xy = weights @ (x * y) / total - mean_x * mean_y
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(xx > 0, xy / xx, np.nan)
        r2 = np.where((xx > 0) & (yy > 0), np.square(xy) / (xx * yy), np.nan)
    return _Lines(slope, r2)


def _spread(values: Array) -> float:
    values = values[np.isfinite(values)]
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
