"""Directions of classes of sentence pairs: agreement, cosines between them, and random pairs as a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.laboratories.contrast import (
    NO_DIRECTION,
    Grams,
    bootstrap_interval,
    corrected_cosine,
    cosine_of_means,
    cosine_p,
    direction_p,
    list_flips,
)
from theodolite.measures.uncertainty import holm

Array = NDArray[np.float64]
Row = dict[str, Any]
LEVEL = 0.05
SURE, HINT, SMALL, OPEN = "sure", "hint", "small", "open"
"""Verdicts. sure: the cosine differs from 0 by its interval and by p_holm, and exceeds that of random pairs; hint:
the same, but only by p; small: it differs from 0, but random pairs give as much; open: it may be 0."""
FEW, NONE = "too few pairs", "undefined"
COSINES = (
    "layer layer_name class_a class_b n_a n_b cosine low high cosine_corrected p smallest_p exact reference_p "
    "reason p_holm verdict reference_low reference_high"
).split()
DRAWS, BLOCK = 1_000, 50


def class_rows(differences: Mapping[str, Array], *, seed: int = 0) -> list[Row]:
    """Return one row per class: norm of its mean difference, agreement of its pairs, and p for no agreement.

    `agree` is the share of pairs that point in the same direction as the mean of the others. Each value:
    (pairs, dim).
    """
    rows: list[Row] = []
    for name, d in differences.items():
        gram, n = d @ d.T, len(d)
        lengths = np.sqrt(np.diag(gram))
        signs = list_flips(n, seed=seed)
        defined = lengths.max(initial=0.0) > 0
        rows.append(
            {
                "class": name,
                "n": n,
                "zero": int((lengths == 0).sum()),
                "length": float(lengths.mean()),
                "length_of_mean": float(np.sqrt(max(gram.sum(), 0.0)) / n),
                "mean_cosine": _mean_cosine(gram, lengths),
                "agree": _agree(gram),
                "p": direction_p(gram, signs) if defined else float("nan"),
                "smallest_p": signs.smallest_p,
                "exact": signs.exact,
                "reason": "" if defined else "every difference is 0",
            }
        )
    for row, adjusted in zip(rows, holm([float(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
    return rows


def cosine_rows(differences: Mapping[str, Array], reference: Array, *, seed: int = 0) -> list[Row]:
    """Return one row per pair of classes: the cosine of their means, its interval, p, and p against random pairs.

    reference: (draws,), cosines of the means of random pairs.
    """
    signs = {name: list_flips(len(d), seed=seed) for name, d in differences.items()}
    rows: list[Row] = []
    for a, b in combinations(differences, 2):
        x, y = differences[a], differences[b]
        grams = Grams(x @ x.T, x @ y.T, y @ y.T)
        cosine = cosine_of_means(grams)
        low, high, reason = bootstrap_interval(grams, seed=seed)
        defined = not np.isnan(cosine)
        rows.append(
            {
                "class_a": a,
                "class_b": b,
                "n_a": len(x),
                "n_b": len(y),
                "cosine": cosine,
                "low": low,
                "high": high,
                "cosine_corrected": corrected_cosine(grams),
                "p": cosine_p(grams.ab, signs[a], signs[b]) if defined else float("nan"),
                "smallest_p": max(signs[a].smallest_p, signs[b].smallest_p),
                "exact": signs[a].exact and signs[b].exact,
                "reference_p": _beyond(cosine, reference),
                "reason": (reason or "") if defined else NO_DIRECTION,
            }
        )
    for row, adjusted in zip(rows, holm([float(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
        row["verdict"] = verdict(row)
    return rows


def verdict(row: Row) -> str:
    """Return the verdict on whether a cosine differs from 0 and exceeds the cosines of random pairs."""
    if np.isnan(row["cosine"]):
        return NONE
    if row["smallest_p"] > LEVEL:
        return FEW
    if row["p"] > LEVEL or row["low"] <= 0 <= row["high"]:
        return OPEN
    if row["reference_p"] > LEVEL:
        return SMALL
    return SURE if row["p_holm"] <= LEVEL else HINT


def resolution_warnings(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Warn if there are too few pairs for the tests of one layer, so that no adjusted p can be small."""
    tests = sum(not np.isnan(row["p"]) for row in rows)
    if not tests:
        return []
    worst = max(rows, key=lambda row: row["smallest_p"])
    smallest, few = worst["smallest_p"], min(worst["n_a"], worst["n_b"])
    if smallest * tests <= LEVEL:
        return []
    size = f"{few} pairs" if few > 1 else "one pair"
    return [
        f"With {size} in a class the smallest possible p is {smallest:.2g}, and {min(smallest * tests, 1):.2g} "
        f"after adjustment for {tests} tests. Use more pairs or fewer classes."
    ]


def _beyond(cosine: float, reference: Array) -> float:
    """Return the share of random cosines at least as far from 0, counting the observed cosine as one of them."""
    if np.isnan(cosine) or not len(reference):
        return float("nan")
    return float((1 + (np.abs(reference) >= abs(cosine)).sum()) / (1 + len(reference)))


def _mean_cosine(gram: Array, lengths: Array) -> float:
    """Return the mean cosine between the differences of different pairs, excluding differences of length 0."""
    kept = lengths > 0
    n = int(kept.sum())
    if n < 2:
        return float("nan")
    cosines = gram[np.ix_(kept, kept)] / np.outer(lengths[kept], lengths[kept])
    return float((cosines.sum() - np.trace(cosines)) / (n * (n - 1)))


def _agree(gram: Array) -> float:
    if len(gram) < 2:
        return float("nan")
    return float((gram.sum(axis=1) - np.diag(gram) > 0).mean())


def random_cosines(vectors: Array, pairs: int, *, seed: int = 0, draws: int = DRAWS) -> Array:
    """Return cosines between the mean differences of two classes of `pairs` random pairs each. (draws,)

    vectors: (sentences, dim), the two sentences of a pair next to each other. The two sentences of a random pair
    come from different pairs. Empty if there are fewer than two pairs.
    """
    count = len(vectors) // 2
    if count < 2:
        return np.empty(0)
    rng = np.random.default_rng(seed)
    centred = vectors - vectors.mean(axis=0)
    blocks = []
    for first in range(0, draws, BLOCK):
        shape = (min(BLOCK, draws - first), 2, pairs)
        one = rng.integers(count, size=shape)
        other = (one + rng.integers(1, count, size=shape)) % count
        sides = rng.integers(2, size=(2, *shape))
        mean = (centred[2 * other + sides[0]] - centred[2 * one + sides[1]]).mean(axis=2)
        lengths = np.linalg.norm(mean, axis=2).prod(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks.append(np.einsum("rd,rd->r", mean[:, 0], mean[:, 1]) / lengths)
    cosines: Array = np.concatenate(blocks)
    return np.asarray(cosines[np.isfinite(cosines)])


def histogram(cosines: Array, bins: int = 40) -> list[dict[str, float]]:
    """Return low, high and count of equal bins from -1 to 1."""
    counts, edges = np.histogram(cosines, bins=bins, range=(-1.0, 1.0))
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"low": low, "high": high, "count": count} for low, high, count in rows]
