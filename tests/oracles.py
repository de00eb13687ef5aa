"""Every number by its definition, computed naively from all vectors.

Functions take arrays and return plain numbers. Second moments are computed in two passes (first the mean, then the
distances to it) in the widest float of numpy, so that a test measures the error of the code and not of its oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Q, M and V; within and between units where there are units."""

    q: float
    m: float
    v: float
    v_within: float = 0.0
    v_between: float = 0.0


def wide(x: Array) -> NDArray[np.longdouble]:
    return np.asarray(x, dtype=np.longdouble)


def qmv(x: Array) -> Parts:
    """Mean squared norm, squared norm of the mean, and mean squared distance to the mean, of (rows, dim)."""
    x = wide(x)
    mean = x.sum(axis=0) / len(x)
    q, v = (x**2).sum() / len(x), ((x - mean) ** 2).sum() / len(x)
    return Parts(float(q), float((mean**2).sum()), float(v))


def qmv_by_unit(x: Array, unit: Codes) -> dict[int, Parts]:
    """Q, M and V of every unit's vectors, by code in rising order."""
    return {int(code): qmv(x[unit == code]) for code in np.unique(unit)}


def decomposition(x: Array, unit: Codes) -> Parts:
    """Q, M and V of everything; V_W is the mean of V(X_t), V_B the spread of the units' means, both by share."""
    x, whole = wide(x), qmv(x)
    centre = x.sum(axis=0) / len(x)
    within = between = np.longdouble(0)
    for code in np.unique(unit):
        mine = x[unit == code]
        share, mean = np.longdouble(len(mine)) / len(x), mine.sum(axis=0) / len(mine)
        within += share * np.longdouble(qmv(mine).v)
        between += share * ((mean - centre) ** 2).sum()
    return Parts(whole.q, whole.m, whole.v, float(within), float(between))


def mean_cosine(x: Array) -> float:
    """Mean cosine over all ordered pairs of different rows, by the matrix of all of them; zero rows have none."""
    x = np.asarray(x, dtype=np.float64)
    norms = np.sqrt((x * x).sum(axis=1))
    directions = x[norms > 0] / norms[norms > 0, None]
    cosines = directions @ directions.T
    n = len(directions)
    return float((cosines.sum() - np.trace(cosines)) / (n * (n - 1))) if n > 1 else float("nan")


def spectrum(x: Array) -> NDArray[np.float64]:
    """Eigenvalues of the covariance, largest first, from the singular values of the centred rows."""
    x = wide(x)
    centred = (x - x.sum(axis=0) / len(x)).astype(np.float64)
    values = np.zeros(x.shape[1])
    singular = np.linalg.svd(centred, compute_uv=False)
    values[: len(singular)] = singular[: x.shape[1]] ** 2 / len(x)
    return values


def spectral(x: Array) -> dict[str, float]:
    """The four spectral columns of the layers' table."""
    values = spectrum(x)
    total, dim = sum(values), len(values)
    ratio = total**2 / sum(value**2 for value in values)
    entropy = -sum(value / total * log(value / total) for value in values if value > 0)
    return {
        "anisotropy_svd": values[0] / total,
        "participation_ratio": ratio,
        "effective_rank": exp(entropy),
        "iso_score": (ratio - 1) / (dim - 1) if dim > 1 else float("nan"),
    }


def norms(x: Array) -> NDArray[np.float64]:
    """Lengths of the rows."""
    return np.sqrt((wide(x) ** 2).sum(axis=1)).astype(np.float64)


def quantile(values: Array, level: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(float(value) for value in values)
    return ordered[max(ceil(level * len(ordered) - 1e-9), 1) - 1]


def line(x: Array, y: Array) -> tuple[float, float]:
    """Slope and R^2 of least squares with an intercept."""
    x, y = wide(x), wide(y)
    dx, dy = x - x.mean(), y - y.mean()
    slope = (dx * dy).sum() / (dx * dx).sum()
    return float(slope), float((dx * dy).sum() ** 2 / ((dx * dx).sum() * (dy * dy).sum()))


def coefficient_of_variation(values: Array) -> float:
    """Population standard deviation over the mean."""
    values = wide(values)
    return float(np.sqrt(((values - values.mean()) ** 2).mean()) / values.mean())


def jackknife(parts: list[Array], estimate) -> float:  # type: ignore[no-untyped-def]
    """Standard error of estimate(rows) when one part of the rows is omitted at a time."""
    without = [estimate(np.concatenate(parts[:i] + parts[i + 1 :])) for i in range(len(parts))]
    mean = sum(without) / len(without)
    return sqrt((len(parts) - 1) / len(parts) * sum((value - mean) ** 2 for value in without))


def cells(x: Array, first: NDArray[np.bool_], massive_above: float) -> Codes:
    """The cell of each row: 1 if first, plus 2 if longer than the bound; what is not finite has no length."""
    found = [
        int(flag) + 2 * int(np.isfinite(norm) and norm > massive_above)
        for flag, norm in zip(first, norms(x), strict=True)
    ]
    return np.array(found, dtype=np.int64)
