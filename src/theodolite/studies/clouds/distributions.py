"""How norms, distances and cosines are distributed within clouds and between them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]
METRICS = ("norm", "distance", "cosine")
BINS = {"norm": 30, "distance": 60, "cosine": 60}


def values(clouds: Mapping[str, Array]) -> dict[tuple[str, str, str], Array]:
    """Return every norm, and the distance and cosine of every pair, by metric and the one or two clouds it is of.

    Zero vectors have no cosine. Each cloud: (n, dim).
    """
    found: dict[tuple[str, str, str], Array] = {}
    units = {name: _units(x) for name, x in clouds.items()}
    for name, x in clouds.items():
        upper = np.triu_indices(len(x), 1)
        found["norm", name, name] = np.linalg.norm(x, axis=1)
        found["distance", name, name] = cdist(x, x)[upper]
        unit = units[name]
        found["cosine", name, name] = (unit @ unit.T)[np.triu_indices(len(unit), 1)].clip(-1, 1)
    for a, b in combinations(clouds, 2):
        found["distance", a, b] = cdist(clouds[a], clouds[b]).ravel()
        found["cosine", a, b] = (units[a] @ units[b].T).ravel().clip(-1, 1)
    return found


def summary_rows(found: Mapping[tuple[str, str, str], Array]) -> list[dict[str, Any]]:
    """Return mean, spread and extremes of each, and the share below 0; null where there is nothing."""
    rows = []
    for (metric, a, b), held in found.items():
        some = len(held) > 0
        numbers = (
            {
                "mean": held.mean(),
                "sd": held.std(),
                "smallest": held.min(),
                "median": np.median(held),
                "largest": held.max(),
                "negative": (held < 0).mean(),
            }
            if some
            else dict.fromkeys(("mean", "sd", "smallest", "median", "largest", "negative"), np.nan)
        )
        told = {name: float(value) for name, value in numbers.items()}
        rows.append({"metric": metric, "corpus_a": a, "corpus_b": b, "n": len(held), **told})
    return rows


def edges_of(metric: str, every: list[Array]) -> Array:
    """Return the ends of the bins that hold all of these values."""
    held = np.concatenate([each for each in every if len(each)] or [np.zeros(1)])
    low, high = float(held.min()), float(held.max())
    if metric != "cosine":
        low = 0.0 if low < 0.25 * high else low
    reach = (high - low) or abs(high) or 1.0
    return np.linspace(low, high if high > low else low + reach, BINS[metric] + 1)


def histogram_rows(
    found: Mapping[tuple[str, str, str], Array], edges: Mapping[str, Array]
) -> list[dict[str, Any]]:
    """Return low, high and count of every bin; `share` is of the values of that one histogram."""
    rows: list[dict[str, Any]] = []
    for (metric, a, b), held in found.items():
        counts, ends = np.histogram(held, edges[metric])
        whole = max(len(held), 1)
        rows += [
            {"metric": metric, "corpus_a": a, "corpus_b": b, "low": low, "high": high, "count": count}
            | {"share": count / whole}
            for low, high, count in zip(ends[:-1].tolist(), ends[1:].tolist(), counts.tolist(), strict=True)
        ]
    return rows


def _units(x: Array) -> Array:
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    kept = lengths[:, 0] > 0
    return np.asarray(x[kept] / lengths[kept])
