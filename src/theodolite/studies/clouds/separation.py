"""How far two clouds are apart, measured: a straight line, the energy distance, and length alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from theodolite.measures.energy import Energy, energy
from theodolite.measures.holm import holm
from theodolite.measures.linear_separation import Accuracy, folds, linear_accuracy, relabellings

Array = NDArray[np.float64]
Row = dict[str, Any]
PERMUTATIONS = 999
FEWEST = 10
TOO_FEW = f"fewer than {FEWEST} documents of a corpus"
NOT_FINITE = "a vector is not finite"


def separation_rows(
    clouds: Mapping[str, Array],
    tokens: Mapping[str, Sequence[int]],
    *,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> list[Row]:
    """Return a row for every two clouds, p adjusted for all of them. Each cloud: (n, dim); its tokens: (n,)"""
    rows: list[Row] = []
    for a, b in combinations(clouds, 2):
        n = min(len(clouds[a]), len(clouds[b]))
        head = {"corpus_a": a, "corpus_b": b, "n": n}
        counts = [np.asarray(tokens[name][:n], dtype=np.float64) for name in (a, b)]
        head |= {
            f"tokens_{side}": float(held.mean()) if n else np.nan for side, held in zip("ab", counts, strict=True)
        }
        x = np.concatenate([clouds[a][:n], clouds[b][:n]])
        rows.append(head | _pair(x, np.concatenate(counts), n, seed=seed, permutations=permutations))
    for name in ("accuracy_p", "energy_p"):
        for row, adjusted in zip(rows, holm([float(row[name]) for row in rows]), strict=True):
            row[f"{name}_holm"] = float(adjusted)
    return rows


def _pair(x: Array, tokens: Array, n: int, *, seed: int, permutations: int) -> Row:
    """Measure two clouds of n vectors each, one after the other."""
    reason = TOO_FEW if n < FEWEST else NOT_FINITE if not np.isfinite(x).all() else ""
    if reason:
        nothing = Accuracy(*(np.nan,) * 4)
        return _row(nothing, Energy(*(np.nan,) * 3), nothing, np.nan, reason)
    labels = np.arange(2 * n) < n
    fold = np.concatenate([folds(n, seed=seed), folds(n, seed=seed + 1)])
    shuffled = relabellings(labels, fold, permutations, seed=seed)
    centred = x - x.mean(axis=0)
    line = linear_accuracy(centred, labels, fold, shuffled)
    apart = energy(cdist(centred, centred), labels, shuffled)
    by_length = linear_accuracy(np.log1p(tokens)[:, None], labels, fold, shuffled[:1])
    return _row(line, apart, by_length, 1 / (permutations + 1), "")


def _row(line: Accuracy, apart: Energy, by_length: Accuracy, smallest: float, reason: str) -> Row:
    return {
        "accuracy": line.value,
        "accuracy_low": line.low,
        "accuracy_high": line.high,
        "accuracy_p": line.p,
        "energy": apart.distance,
        "energy_share": apart.share,
        "energy_p": apart.p,
        "smallest_p": smallest,
        "length_accuracy": by_length.value,
        "reason": reason,
    }
