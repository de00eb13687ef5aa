"""Comparing clouds of vectors: distributions of norms, distances and cosines, and tests of separation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from theodolite.measures.laboratories.clouds import (
    Accuracy,
    Energy,
    assign_folds,
    energy,
    linear_accuracy,
    permute_labels,
)
from theodolite.measures.uncertainty import holm

Row = dict[str, Any]
PERMUTATIONS = 999
FEWEST = 10
TOO_FEW = f"fewer than {FEWEST} documents of a corpus"
NOT_FINITE = "a vector is not finite"
Array = NDArray[np.float64]
METRICS = ("norm", "distance", "cosine")
BINS = {"norm": 30, "distance": 60, "cosine": 60}


def separation_rows(
    clouds: Mapping[str, Array],
    tokens: Mapping[str, Sequence[int]],
    *,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> list[Row]:
    """Return one row per pair of clouds, p adjusted for all pairs. Each cloud: (n, dim); its tokens: (n,)

    Measures the accuracy of a linear classifier, the energy distance, and the accuracy from lengths only.
    """
    rows: list[Row] = []
    for a, b in combinations(clouds, 2):
        n = min(len(clouds[a]), len(clouds[b]))
        head = {"corpus_a": a, "corpus_b": b, "n": n}
        counts = [np.asarray(tokens[name][:n], dtype=np.float64) for name in (a, b)]
        head |= {
            f"tokens_{side}": float(count.mean()) if n else np.nan
            for side, count in zip("ab", counts, strict=True)
        }
        x = np.concatenate([clouds[a][:n], clouds[b][:n]])
        rows.append(head | _pair(x, np.concatenate(counts), n, seed=seed, permutations=permutations))
    for name in ("accuracy_p", "energy_p"):
        for row, adjusted in zip(rows, holm([float(row[name]) for row in rows]), strict=True):
            row[f"{name}_holm"] = float(adjusted)
    return rows


def _pair(x: Array, tokens: Array, n: int, *, seed: int, permutations: int) -> Row:
    """Compare two clouds of n vectors each; x has the vectors of the first, then those of the second."""
    reason = TOO_FEW if n < FEWEST else NOT_FINITE if not np.isfinite(x).all() else ""
    if reason:
        undefined = Accuracy(*(np.nan,) * 4)
        return _row(undefined, Energy(*(np.nan,) * 3), undefined, np.nan, reason)
    labels = np.arange(2 * n) < n
    fold = np.concatenate([assign_folds(n, seed=seed), assign_folds(n, seed=seed + 1)])
    shuffled = permute_labels(labels, fold, permutations, seed=seed)
    centred = x - x.mean(axis=0)
    accuracy = linear_accuracy(centred, labels, fold, shuffled)
    distance = energy(cdist(centred, centred), labels, shuffled)
    by_length = linear_accuracy(np.log1p(tokens)[:, None], labels, fold, shuffled[:1])
    return _row(accuracy, distance, by_length, 1 / (permutations + 1), "")


def _row(accuracy: Accuracy, distance: Energy, by_length: Accuracy, smallest: float, reason: str) -> Row:
    return {
        "accuracy": accuracy.value,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "accuracy_p": accuracy.p,
        "energy": distance.distance,
        "energy_share": distance.share,
        "energy_p": distance.p,
        "smallest_p": smallest,
        "length_accuracy": by_length.value,
        "reason": reason,
    }


def pair_values(clouds: Mapping[str, Array]) -> dict[tuple[str, str, str], Array]:
    """Return all norms, and the distances and cosines of all pairs, by metric and by the one or two clouds.

    Zero vectors have no cosine. Each cloud: (n, dim).
    """
    values: dict[tuple[str, str, str], Array] = {}
    units = {name: _units(x) for name, x in clouds.items()}
    for name, x in clouds.items():
        upper = np.triu_indices(len(x), 1)
        values["norm", name, name] = np.linalg.norm(x, axis=1)
        values["distance", name, name] = cdist(x, x)[upper]
        unit = units[name]
        values["cosine", name, name] = (unit @ unit.T)[np.triu_indices(len(unit), 1)].clip(-1, 1)
    for a, b in combinations(clouds, 2):
        values["distance", a, b] = cdist(clouds[a], clouds[b]).ravel()
        values["cosine", a, b] = (units[a] @ units[b].T).ravel().clip(-1, 1)
    return values


def summary_rows(values: Mapping[tuple[str, str, str], Array]) -> list[dict[str, Any]]:
    """Return mean, standard deviation, median, extremes and share below 0 of each; NaN if there are no values."""
    rows = []
    for (metric, a, b), array in values.items():
        numbers = (
            {
                "mean": array.mean(),
                "sd": array.std(),
                "smallest": array.min(),
                "median": np.median(array),
                "largest": array.max(),
                "negative": (array < 0).mean(),
            }
            if len(array)
            else dict.fromkeys(("mean", "sd", "smallest", "median", "largest", "negative"), np.nan)
        )
        floats = {name: float(value) for name, value in numbers.items()}
        rows.append({"metric": metric, "corpus_a": a, "corpus_b": b, "n": len(array), **floats})
    return rows


def bin_edges(metric: str, arrays: list[Array]) -> Array:
    """Return the edges of equal bins that cover all of these values."""
    array = np.concatenate([part for part in arrays if len(part)] or [np.zeros(1)])
    low, high = float(array.min()), float(array.max())
    if metric != "cosine":
        low = 0.0 if low < 0.25 * high else low
    width = abs(high) or 1.0
    return np.linspace(low, high if high > low else low + width, BINS[metric] + 1)


def histogram_rows(
    values: Mapping[tuple[str, str, str], Array], edges: Mapping[str, Array]
) -> list[dict[str, Any]]:
    """Return low, high and count of every bin; `share` is the count over all values of that histogram."""
    rows: list[dict[str, Any]] = []
    for (metric, a, b), array in values.items():
        counts, ends = np.histogram(array, edges[metric])
        total = max(len(array), 1)
        rows += [
            {"metric": metric, "corpus_a": a, "corpus_b": b, "low": low, "high": high, "count": count}
            | {"share": count / total}
            for low, high, count in zip(ends[:-1].tolist(), ends[1:].tolist(), counts.tolist(), strict=True)
        ]
    return rows


def _units(x: Array) -> Array:
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    kept = lengths[:, 0] > 0
    return np.asarray(x[kept] / lengths[kept])
