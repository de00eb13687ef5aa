"""Directions of classes of sentence pairs: agreement, cosines between them, and random swaps as a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.laboratories.contrast import (
    NO_DIRECTION,
    ONE_PAIR,
    Grams,
    association,
    bootstrap_interval,
    corrected_cosine,
    cosine_of_means,
    cosine_p,
    direction_p,
    list_flips,
    random_swap_p,
)
from theodolite.measures.uncertainty import holm

Array = NDArray[np.float64]
Row = dict[str, Any]
LEVEL = 0.05
SURE, HINT, SMALL, OPEN = "sure", "hint", "small", "open"
"""Verdicts. sure: the cosine differs from 0 by its intervals and by p_holm, and exceeds that of random swaps by
reference_p_holm; hint: the same, but only without adjustment; small: it differs from 0, but random swaps give as
much; open: it may be 0."""
FEW, NONE = "too few pairs", "undefined"
COSINES = (
    "layer layer_name class_a class_b n_a n_b cosine low high word_low word_high template_low template_high "
    "cosine_corrected p smallest_p exact reference_p seat seat_p weat weat_p reason p_holm reference_p_holm "
    "verdict reference_low reference_high"
).split()
NO_REFERENCE = np.empty(0)
Sides = tuple[Array, Array]
"""The vectors of the first and of the second sentences, or words, of a class. (pairs, dim) each"""


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
                "reason": ("" if n > 1 else ONE_PAIR) if defined else "every difference is 0",
            }
        )
    for row, adjusted in zip(rows, holm([float(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
    return rows


def cosine_rows(
    differences: Mapping[str, Array],
    random: Mapping[str, Array] | None = None,
    *,
    sentences: Mapping[str, Sides] | None = None,
    words: Mapping[str, Sides] | None = None,
    clusters: Mapping[str, Clusters] | None = None,
    seed: int = 0,
) -> tuple[list[Row], Array]:
    """Return one row per pair of classes: the cosine of their means, its intervals, p, and p against random swaps.

    random: by class, mean differences of its random versions (versions, dim); sentences and words: the two sides
    of each class, for SEAT and WEAT. Also returns the cosines of all random versions.
    """
    signs = {name: list_flips(len(d), seed=seed) for name, d in differences.items()}
    rows: list[Row] = []
    references = []
    for a, b in combinations(differences, 2):
        x, y = differences[a], differences[b]
        grams = Grams(x @ x.T, x @ y.T, y @ y.T)
        cosine = cosine_of_means(grams)
        low, high, reason = bootstrap_interval(grams, seed=seed)
        defined = not np.isnan(cosine)
        reference = random_cosines(random[a], random[b]) if random else NO_REFERENCE
        references.append(reference)
        rows.append(
            {"class_a": a, "class_b": b, "n_a": len(x), "n_b": len(y), "cosine": cosine, "low": low, "high": high}
            | (_clustered(grams, clusters[a], clusters[b], seed) if clusters else {})
            | {
                "cosine_corrected": corrected_cosine(grams),
                "p": cosine_p(grams.ab, signs[a], signs[b]) if defined else float("nan"),
                "smallest_p": max(signs[a].smallest_p, signs[b].smallest_p),
                "exact": signs[a].exact and signs[b].exact,
                "reference_p": random_swap_p(cosine, reference),
                "reason": (reason or "") if defined else NO_DIRECTION,
            }
            | _associate("seat", sentences, a, b, seed)
            | _associate("weat", words, a, b, seed)
            | _interval(reference)
        )
    for name in ("p", "reference_p"):
        for row, adjusted in zip(rows, holm([float(row[name]) for row in rows]), strict=True):
            row[f"{name}_holm"] = float(adjusted)
    for row in rows:
        row["verdict"] = verdict(row)
    return rows, np.concatenate([*references, NO_REFERENCE])


class Clusters(NamedTuple):
    """Labels of the pairs of a class: pairs that exchange the same words, and pairs with the same template."""

    word: Sequence[str]
    template: Sequence[str]


def _clustered(grams: Grams, a: Clusters, b: Clusters, seed: int) -> Row:
    """Return the intervals by word and by template; NaN if a class has only one of them."""
    row: Row = {}
    for name in Clusters._fields:
        ends = bootstrap_interval(grams, (getattr(a, name), getattr(b, name)), seed=seed)[:2]
        row |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
    return row


def _associate(name: str, sides: Mapping[str, Sides] | None, a: str, b: str, seed: int) -> Row:
    """Return the association test with the targets of the first class, or of the second if the first has one."""
    if sides and len(sides[a][0]) < 2:
        a, b = b, a
    effect, p = association(*sides[a], *sides[b], seed=seed) if sides else (float("nan"),) * 2
    return {name: effect, f"{name}_p": p}


def _interval(reference: Array) -> Row:
    low, high = np.quantile(reference, [0.025, 0.975]).tolist() if len(reference) else (np.nan, np.nan)
    return {"reference_low": low, "reference_high": high}


def verdict(row: Row) -> str:
    """Return the verdict on whether a cosine differs from 0 and exceeds the cosines of random swaps."""
    if np.isnan(row["cosine"]):
        return NONE
    if row["smallest_p"] > LEVEL:
        return FEW
    ends = [(row.get(f"{kind}low", np.nan), row.get(f"{kind}high", np.nan)) for kind in ("", "word_", "template_")]
    if row["p"] > LEVEL or any(low <= 0 <= high for low, high in ends):
        return OPEN
    if row["reference_p"] > LEVEL:
        return SMALL
    return SURE if row["p_holm"] <= LEVEL and row["reference_p_holm"] <= LEVEL else HINT


def resolution_warnings(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Warn if there are too few pairs for the tests of one layer, so that an adjusted p cannot be small.

    Holm's adjustment is monotone in every p, so the smallest adjusted p of a test is the one if all tests have
    their smallest p.
    """
    tested = [row for row in rows if not np.isnan(row["p"])]
    if not tested:
        return []
    least = holm([row["smallest_p"] for row in tested])
    worst = int(least.argmax())
    if least[worst] <= LEVEL:
        return []
    few = min(tested[worst]["n_a"], tested[worst]["n_b"])
    return [
        f"With {few} pairs in a class the smallest possible p is {tested[worst]['smallest_p']:.2g}, and "
        f"{least[worst]:.2g} after Holm's adjustment for {len(tested)} tests. Use more pairs or fewer classes."
    ]


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


def random_means(differences: NDArray[np.floating[Any]], *, seed: int = 0) -> Array:
    """Return the mean difference of each random version of a class, over templates drawn with replacement.

    (versions, pairs, dim) -> (versions, dim). Each version has other words, so words are resampled too.
    """
    versions, pairs, dim = differences.shape
    weights = np.random.default_rng(seed).multinomial(pairs, np.full(pairs, 1 / max(pairs, 1)), size=versions)
    means = np.empty((versions, dim))
    for number, (weight, of) in enumerate(zip(weights, differences, strict=True)):
        means[number] = weight @ of.astype(np.float64) / pairs
    return means


def random_cosines(a: Array, b: Array) -> Array:
    """Return the finite cosines of every random version of one class with every one of another. (versions, dim)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    cosines = np.asarray(one @ other.T).ravel()
    return np.asarray(cosines[np.isfinite(cosines)])


def histogram(cosines: Array, bins: int = 40) -> list[dict[str, float]]:
    """Return low, high and count of equal bins from -1 to 1."""
    counts, edges = np.histogram(cosines, bins=bins, range=(-1.0, 1.0))
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"low": low, "high": high, "count": count} for low, high, count in rows]
