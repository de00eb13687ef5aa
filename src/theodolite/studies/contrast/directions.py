"""Classes of differences: has each a direction, and how do the directions lie to each other?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.holm import holm
from theodolite.measures.mean_differences import (
    NO_DIRECTION,
    Grams,
    bootstrap_interval,
    corrected_cosine,
    cosine_of_means,
)
from theodolite.measures.sign_flips import cosine_p, direction_p, flips

Array = NDArray[np.float64]
Row = dict[str, Any]
LEVEL = 0.05
SURE, HINT, SMALL, OPEN = "sure", "hint", "small", "open"
"""The cosine is not 0 by its interval and by p_holm (sure) or by p alone (hint), and is beyond what random pairs
give; not 0, but random pairs give as much (small); it may be 0 (open)."""
FEW, NONE = "too few pairs", "undefined"
COSINES = (
    "layer layer_name class_a class_b n_a n_b cosine low high cosine_corrected p smallest_p exact reference_p "
    "reason p_holm verdict reference_low reference_high"
).split()


def class_rows(differences: Mapping[str, Array], *, seed: int = 0) -> list[Row]:
    """Return a row a class: how long its mean difference is, how much its pairs agree, and p that they agree not.

    `agree` is the share of pairs that lean the way of the others' mean. Each value: (pairs, dim).
    """
    rows: list[Row] = []
    for name, d in differences.items():
        gram, n = d @ d.T, len(d)
        lengths = np.sqrt(np.diag(gram))
        ways = flips(n, seed=seed)
        whole = lengths.max(initial=0.0) > 0
        rows.append(
            {
                "class": name,
                "n": n,
                "zero": int((lengths == 0).sum()),
                "length": float(lengths.mean()),
                "length_of_mean": float(np.sqrt(max(gram.sum(), 0.0)) / n),
                "mean_cosine": _mean_cosine(gram, lengths),
                "agree": _agree(gram),
                "p": direction_p(gram, ways) if whole else float("nan"),
                "smallest_p": ways.smallest_p,
                "exact": ways.exact,
                "reason": "" if whole else "every difference is 0",
            }
        )
    for row, adjusted in zip(rows, holm([float(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
    return rows


def cosine_rows(differences: Mapping[str, Array], reference: Array, *, seed: int = 0) -> list[Row]:
    """Return a row for every two classes: the cosine of their means, its interval, p, and what random pairs give.

    reference: (draws,), cosines of the means of random pairs.
    """
    ways = {name: flips(len(d), seed=seed) for name, d in differences.items()}
    rows: list[Row] = []
    for a, b in combinations(differences, 2):
        x, y = differences[a], differences[b]
        grams = Grams(x @ x.T, x @ y.T, y @ y.T)
        cosine = cosine_of_means(grams)
        low, high, why = bootstrap_interval(grams, seed=seed)
        known = not np.isnan(cosine)
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
                "p": cosine_p(grams.ab, ways[a], ways[b]) if known else float("nan"),
                "smallest_p": max(ways[a].smallest_p, ways[b].smallest_p),
                "exact": ways[a].exact and ways[b].exact,
                "reference_p": _beyond(cosine, reference),
                "reason": (why or "") if known else NO_DIRECTION,
            }
        )
    for row, adjusted in zip(rows, holm([float(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
        row["verdict"] = verdict(row)
    return rows


def verdict(row: Row) -> str:
    """Say how sure a cosine is to differ from 0, and to be more than chance gives, in a word or two."""
    if np.isnan(row["cosine"]):
        return NONE
    if row["smallest_p"] > LEVEL:
        return FEW
    if row["p"] > LEVEL or row["low"] <= 0 <= row["high"]:
        return OPEN
    if row["reference_p"] > LEVEL:
        return SMALL
    return SURE if row["p_holm"] <= LEVEL else HINT


def limits(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Say where so few pairs stand against so many tests that no adjusted p could be small. Rows of one layer."""
    tests = sum(not np.isnan(row["p"]) for row in rows)
    if not tests:
        return []
    worst = max(rows, key=lambda row: row["smallest_p"])
    smallest, few = worst["smallest_p"], min(worst["n_a"], worst["n_b"])
    if smallest * tests <= LEVEL:
        return []
    words = f"{few} pairs" if few > 1 else "one pair"
    return [
        f"With {words} in a class no p is below {smallest:.2g}, and adjusted for {tests} tests none below "
        f"{min(smallest * tests, 1):.2g}: more pairs or fewer classes could say more."
    ]


def _beyond(cosine: float, reference: Array) -> float:
    """Return the share of random cosines at least as far from 0, the observed one among them."""
    if np.isnan(cosine) or not len(reference):
        return float("nan")
    return float((1 + (np.abs(reference) >= abs(cosine)).sum()) / (1 + len(reference)))


def _mean_cosine(gram: Array, lengths: Array) -> float:
    """Return the mean cosine between different pairs' differences, those of length 0 left out."""
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
