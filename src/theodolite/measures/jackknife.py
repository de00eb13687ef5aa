"""The jackknife over document groups: how far a number would move if other documents had been read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def jackknife(groups: int, without: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return standard errors from the estimates without each group in turn; NaN for fewer than two groups.

    The error is sqrt((g - 1)/g sum (theta_i - mean theta)^2), Quenouille and Tukey's.
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
