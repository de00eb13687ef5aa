"""Estimates with standard errors, the jackknife over document groups, and Holm's correction for many tests.

Holm's correction is ten lines here, since scipy has none and statsmodels would be a dependency for it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula


class Estimate(NamedTuple):
    """An estimate, its standard error (NaN if unknown), and the reason if it is undefined."""

    value: float
    se: float = nan
    reason: str | None = None

    @classmethod
    def undefined(cls, reason: str) -> Estimate:
        """Return an undefined estimate with this reason.

        >>> Estimate.undefined("no vectors")
        Estimate(value=nan, se=nan, reason='no vectors')
        """
        return cls(nan, nan, reason)


def jackknife(groups: int, without: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return jackknife standard errors from the estimates without each group; NaN for fewer than two groups.

    The error is sqrt((g - 1)/g sum (theta_i - mean theta)^2) (Quenouille, Tukey).
    without(i): (numbers,) -> (numbers,)

    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> error = jackknife(4, lambda i: np.delete(values, i).mean(keepdims=True))
    >>> bool(np.isclose(error[0], values.std(ddof=1) / 2))
    True
    """
    if groups < 2:
        return np.full_like(without(0), np.nan) if groups else np.array([np.nan])
    estimates = np.stack([without(group) for group in range(groups)])
    spread = np.square(estimates - estimates.mean(axis=0)).sum(axis=0)
    return np.asarray(np.sqrt((groups - 1) / groups * spread))


@formula(
    "p-holm",
    "contrast.p_holm",
    "contrast.reference_p_holm",
    "clouds.accuracy_p_holm",
    "clouds.energy_p_holm",
    definition="The i-th smallest of m p-values times (m - i + 1), not below the previous one and at most 1.",
    cost="one sort",
    citation="Holm, A simple sequentially rejective multiple test procedure, 1979",
)
def holm(p: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted for the number of tests; NaN stays NaN and does not count. (tests,) -> (tests,)

    >>> holm([0.01, float("nan"), 0.04, 0.03]).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    order = np.flatnonzero(np.isfinite(given))
    order = order[np.argsort(given[order], kind="stable")]
    weights = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * weights), 1.0)
    return adjusted
