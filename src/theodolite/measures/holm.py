"""Many tests at once: Holm's adjustment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula


@formula(
    "p-holm",
    "contrast.p_holm",
    "clouds.accuracy_p_holm",
    "clouds.energy_p_holm",
    definition="Sorted p, the i-th smallest of m times (m - i + 1), never below the one before, at most 1.",
    cost="one sort",
    citation="Holm, A simple sequentially rejective multiple test procedure, 1979",
)
def holm(p: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p adjusted for the number of tests that have one; NaN stays. (tests,) -> (tests,)

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
