"""Comparing clouds of vectors: distributions of norms, distances and cosines, and tests of separation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from theodolite.measures.laboratories.clouds import (
    FOLDS,
    Accuracy,
    Energy,
    assign_source_folds,
    energy,
    linear_accuracy,
    permute_sources,
)
from theodolite.measures.uncertainty import holm
from theodolite.studies.clouds.surface import FEATURES

Row = dict[str, Any]
PERMUTATIONS = 999
FEWEST = 10
TOO_FEW = f"fewer than {FEWEST} documents of a corpus"
FEW_SOURCES = f"fewer than {FOLDS} sources of a corpus"
NOT_FINITE = "a vector is not finite"
Array = NDArray[np.float64]
CONTROLS = ("length", *FEATURES)
"""What a classifier may use instead of meaning; each has a classifier of its own."""
METRICS = ("norm", "distance", "dot", "cosine")
BINS = {"norm": 30, "distance": 60, "dot": 60, "cosine": 60}


def separation_rows(
    clouds: Mapping[str, Array],
    tokens: Mapping[str, Sequence[int]],
    *,
    sources: Mapping[str, Sequence[int]] | None = None,
    surface: Mapping[str, Mapping[str, Array]] | None = None,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> list[Row]:
    """Return one row per pair of clouds, p adjusted for all pairs. Each cloud: (n, dim); its tokens: (n,)

    Measures the accuracy of a linear classifier, the energy distance, and the accuracy from lengths only and from
    each kind of `surface` feature only (by corpus and kind). `sources` numbers the source of each document: folds
    and permutations keep the documents of a source together. By default every document is a source.
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
        groups = [np.asarray(sources[name][:n] if sources else range(n), dtype=np.int64) for name in (a, b)]
        head |= {f"sources_{side}": len(np.unique(group)) for side, group in zip("ab", groups, strict=True)}
        controls = {"length": np.log1p(np.concatenate(counts))[:, None]}
        if surface is not None:
            controls |= {kind: np.concatenate([surface[side][kind][:n] for side in (a, b)]) for kind in FEATURES}
        rows.append(head | _pair(x, controls, groups, seed=seed, permutations=permutations))
    for name in ("accuracy_p", "energy_p"):
        for row, adjusted in zip(rows, holm([float(row[name]) for row in rows]), strict=True):
            row[f"{name}_holm"] = float(adjusted)
    return rows


def _pair(
    x: Array, controls: Mapping[str, Array], sources: Sequence[NDArray[np.int64]], *, seed: int, permutations: int
) -> Row:
    """Compare two clouds of n vectors each; x has the vectors of the first, then those of the second."""
    n = len(x) // 2
    few = min(len(np.unique(group)) for group in sources) < FOLDS
    reason = TOO_FEW if n < FEWEST else FEW_SOURCES if few else NOT_FINITE if not np.isfinite(x).all() else ""
    if reason:
        undefined = Accuracy(*(np.nan,) * 4)
        return _row(undefined, Energy(*(np.nan,) * 3), dict.fromkeys(CONTROLS, np.nan), np.nan, reason)
    labels = np.arange(2 * n) < n
    fold = np.concatenate([assign_source_folds(group, seed=seed + at) for at, group in enumerate(sources)])
    source = np.concatenate([sources[0], sources[1] + sources[0].max() + 1])
    shuffled = permute_sources(labels, fold, source, permutations, seed=seed)
    centred = x - x.mean(axis=0)
    accuracy = linear_accuracy(centred, labels, fold, shuffled)
    distance = energy(cdist(centred, centred), labels, shuffled)
    by_control = {kind: linear_accuracy(controls[kind], labels, fold, shuffled[:1]).value for kind in controls}
    return _row(accuracy, distance, by_control, 1 / (permutations + 1), "")


def _row(accuracy: Accuracy, distance: Energy, controls: Mapping[str, float], smallest: float, reason: str) -> Row:
    return {
        "accuracy": accuracy.value,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "accuracy_p": accuracy.p,
        "energy": distance.distance,
        "energy_share": distance.share,
        "energy_p": distance.p,
        "smallest_p": smallest,
        **{f"{kind}_accuracy": controls.get(kind, np.nan) for kind in CONTROLS},
        "reason": reason,
    }


def pair_values(clouds: Mapping[str, Array]) -> dict[tuple[str, str, str], Array]:
    """Return all norms, and distances, dot products and cosines of all pairs, by metric and the one or two clouds.

    Zero vectors have no cosine. Each cloud: (n, dim).
    """
    values: dict[tuple[str, str, str], Array] = {}
    units = {name: _units(x) for name, x in clouds.items()}
    for name, x in clouds.items():
        upper = np.triu_indices(len(x), 1)
        values["norm", name, name] = np.linalg.norm(x, axis=1)
        values["distance", name, name] = cdist(x, x)[upper]
        values["dot", name, name] = (x @ x.T)[upper]
        unit = units[name]
        values["cosine", name, name] = (unit @ unit.T)[np.triu_indices(len(unit), 1)].clip(-1, 1)
    for a, b in combinations(clouds, 2):
        values["distance", a, b] = cdist(clouds[a], clouds[b]).ravel()
        values["dot", a, b] = (clouds[a] @ clouds[b].T).ravel()
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
    if metric in ("norm", "distance"):
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
