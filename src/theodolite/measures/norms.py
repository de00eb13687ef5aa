"""Quantiles of the vectors' norms, from a histogram with fixed bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

LEVELS = {
    "norm_p01": 0.01,
    "norm_p05": 0.05,
    "norm_p25": 0.25,
    "norm_p50": 0.5,
    "norm_p75": 0.75,
    "norm_p95": 0.95,
    "norm_p99": 0.99,
}


@formula(
    "norm-quantiles/log-histogram",
    *LEVELS,
    definition="Quantiles of |x| from 64 bins per octave, interpolated within a bin: accurate to 1.1%. Undefined "
    "below 2^-40 and above 2^60, where there are no bins.",
    cost="one histogram",
    citation="Theodolite",
)
def norm_quantiles(
    counts: NDArray[np.int64], edges: NDArray[np.float64], zero: int, lowest: float, highest: float
) -> dict[str, float]:
    """Return the norm at each level; NaN if nothing was counted. Zero vectors are below the first bin.

    The first and last bin also hold what is below and above them: a quantile there is NaN if the minimum or
    maximum shows that they do. counts: (bins,), edges: (bins + 1,). Values are limited to the observed minimum and
    maximum.
    """
    cumulative = zero + np.cumsum(counts)
    total = int(cumulative[-1])
    if total == 0:
        return dict.fromkeys(LEVELS, float("nan"))
    quantiles = {}
    for name, level in LEVELS.items():
        rank = level * total
        if rank <= zero:
            quantiles[name] = 0.0 if zero else lowest
            continue
        at = int(np.searchsorted(cumulative, rank))
        if (at == 0 and lowest < edges[0]) or (at == len(counts) - 1 and highest > edges[-1]):
            quantiles[name] = float("nan")
            continue
        within = (rank - (cumulative[at] - counts[at])) / counts[at]
        value = edges[at] * (edges[at + 1] / edges[at]) ** within
        quantiles[name] = float(np.clip(value, lowest, highest))
    return quantiles
