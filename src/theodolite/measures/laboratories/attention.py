"""Attention: softmax weights by row, their sharpness, and the vectors of each head. Masked entries are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.floating]


class RowWeights(NamedTuple):
    """For every row of scores: three softmax weights, and sums of the scores. (..., rows) each"""

    maximum: Floats
    median: Floats
    minimum: Floats
    total: Floats  # sum of the scores
    square: Floats  # sum of their squares
    high: Floats  # largest score
    low: Floats


@formula(
    "attention/row-weights",
    "softmax.maximum",
    "softmax.median",
    "softmax.minimum",
    definition="Largest, median (of an even number, the mean of the middle two) and smallest softmax weight of "
    "each row of q k^T/sqrt(d_k), over the entries that are not masked; the mean over sequences, heads and rows "
    "of equal length.",
    cost="one sort per row",
    citation="Godey et al. 2023, figure 9",
)
def row_weights(scores: NDArray[np.float32], lengths: NDArray[np.int64]) -> RowWeights:
    """Return weights and sums by row. Sorts `scores` in place. (..., rows, columns), (rows,) -> (..., rows)

    Masked entries are +inf, so that sorting puts them last; a row has `lengths` other entries, at least one. The
    softmax preserves the order of the scores, so the three weights come from three scores.

    >>> rows = row_weights(np.log(np.array([[1, 2, 5], [3, 1, np.inf]], dtype=np.float32)), np.array([3, 2]))
    >>> rows.maximum.round(3).tolist(), rows.median.round(3).tolist(), rows.minimum.round(3).tolist()
    ([0.625, 0.75], [0.25, 0.5], [0.125, 0.25])
    """
    scores.sort(axis=-1)
    high = _take_at(scores, lengths - 1)
    unmasked = bool((lengths == scores.shape[-1]).all())
    if unmasked:
        known = scores
    else:
        held = np.arange(scores.shape[-1]) < lengths[:, None]
        known = np.where(held, scores, np.float32(0))
    weights = np.exp(known - high[..., None])
    if not unmasked:
        weights *= held
    mass = weights.sum(axis=-1)
    middle = (_take_at(weights, (lengths - 1) // 2) + _take_at(weights, lengths // 2)) / 2
    return RowWeights(
        1 / mass,
        middle / mass,
        weights[..., 0] / mass,
        known.sum(axis=-1),
        np.einsum("...c,...c->...", known, known),
        high,
        scores[..., 0],
    )


@formula(
    "attention/extremes",
    "extremes.maximum",
    "extremes.minimum",
    "extremes.maximum_any_head",
    "extremes.minimum_any_head",
    definition="Largest and smallest softmax weight over all rows of a sequence with at least least_length "
    "entries, per head, then the mean over heads and sequences; _any_head: over all heads, then the mean over "
    "sequences.",
    cost="from the rows",
    citation="Godey et al. 2023, figure 10",
)
def extremes(rows: RowWeights, lengths: NDArray[np.int64], least: int) -> dict[str, float]:
    """Return the largest and smallest weight of one sequence. rows: (heads, rows) each, lengths: (rows,)

    >>> rows = row_weights(np.log(np.array([[[1, 3], [4, 1]], [[1, 1], [1, 2]]], dtype=np.float32)),
    ...                    np.array([2, 2]))
    >>> {name: round(value, 3) for name, value in extremes(rows, np.array([2, 2]), 1).items()}
    {'maximum': 0.733, 'minimum': 0.267, 'maximum_any_head': 0.8, 'minimum_any_head': 0.2}
    """
    long = lengths >= least
    high, low = rows.maximum[:, long].max(axis=-1), rows.minimum[:, long].min(axis=-1)
    return {
        "maximum": float(high.mean()),
        "minimum": float(low.mean()),
        "maximum_any_head": float(high.max()),
        "minimum_any_head": float(low.min()),
    }


@formula(
    "attention/expected-projection",
    "heads.expected_error",
    "heads.expected_error_of_input",
    definition="|E q - (W E x + b)| / |E q|, with x the input of the projection: 0 up to rounding. _of_input: x "
    "is the input of the block, as in the paper; not 0 if a norm is in between. Undefined after rotary "
    "embedding.",
    cost="one product",
    citation="Godey et al. 2023, equation 1",
)
def expected_error(mean: Floats, expected: Floats) -> Floats:
    """Return |mean - expected| / |mean|; NaN where the mean is 0. (..., dim) each -> (...)

    >>> expected_error(np.array([3.0, 4.0]), np.array([3.0, 3.0])).item()
    0.2
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.linalg.norm(mean, axis=-1)
        return np.asarray(np.where(length > 0, np.linalg.norm(mean - expected, axis=-1) / length, np.nan))


def _take_at(rows: Floats, places: NDArray[np.int64]) -> Floats:
    """Return one entry per row, at the given column. (..., rows, columns), (rows,) -> (..., rows)"""
    return rows[..., np.arange(len(places)), places]


Array = NDArray[np.float64]
HEAD_VECTORS = ("state", "input", "query", "key")
HEAD_NUMBERS = ("norm", "mean_norm", "cosine")
_HEAD_COLUMNS = [f"{vectors}_{number}" for vectors in HEAD_VECTORS for number in HEAD_NUMBERS]


class HeadSums(NamedTuple):
    """Sums over positions, by head; the sums of several texts can be added."""

    positions: int
    directed: Array  # (heads,) number of vectors that are not 0
    norms: Array  # (heads,)
    total: Array  # (heads, dim)
    units: Array  # (heads, dim)


def head_sums(vectors: NDArray[np.floating]) -> HeadSums:
    """Return the sums over the positions of one text, in float64. (heads, positions, dim)"""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1)
    units = wide / np.where(norms == 0, 1.0, norms)[..., None]
    directed = (norms > 0).sum(axis=-1).astype(np.float64)
    return HeadSums(vectors.shape[1], directed, norms.sum(axis=-1), wide.sum(axis=1), units.sum(axis=1))


def add_head_sums(sums: Sequence[HeadSums]) -> HeadSums:
    """Return the total of the sums of one or more texts."""
    arrays = (np.sum(np.stack(parts), axis=0) for parts in zip(*(each[1:] for each in sums), strict=True))
    return HeadSums(sum(each.positions for each in sums), *arrays)


@formula(
    "attention/by-head",
    *(f"attention.{name}" for name in _HEAD_COLUMNS),
    definition="Mean norm, norm of the mean, and mean cosine of all pairs, of states at the input of the block, "
    "of the input of the projections (after a norm, if there is one), and of projected queries and keys (before "
    "rotary embedding); for queries and keys per head, then the mean over heads.",
    cost="two vectors per head",
    citation="Godey et al. 2023, sections 4.3 and 5",
    error=f"jackknife over documents ({', '.join(f'{name}_se' for name in _HEAD_COLUMNS)})",
)
def summarise_heads(sums: HeadSums) -> tuple[float, float, float]:
    """Return mean norm, norm of the mean and mean cosine, each the mean over heads; NaN if undefined.

    >>> summarise_heads(head_sums(np.array([[[3.0, 0.0], [0.0, 4.0]]])))
    (3.5, 2.5, 0.0)
    """
    if not sums.positions:
        return (float("nan"),) * 3
    n = sums.directed
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (np.square(sums.units).sum(axis=-1) - n) / (n * (n - 1))
    cosines = np.where(n > 1, cosines, np.nan)
    return (
        float(sums.norms.mean() / sums.positions),
        float(np.linalg.norm(sums.total / sums.positions, axis=-1).mean()),
        float(cosines.mean()),
    )


class Sharpness(NamedTuple):
    """Sharpness of every row of weights. (..., rows) each"""

    maximum: Array
    entropy: Array  # in nats
    share: Array  # entropy over log(length), its maximum; NaN for rows of one entry


@formula(
    "attention/sharpness",
    "attention.attention_max",
    "attention.attention_entropy",
    "attention.attention_entropy_share",
    "attention_rows.attention_max",
    "attention_rows.attention_entropy",
    "attention_rows.attention_entropy_share",
    definition="Largest weight of each row of attention, its entropy -sum w log w in nats, and that as a share of "
    "log(entries that are not masked), undefined for rows of one entry; the mean over heads and rows.",
    cost="one pass over the weights",
    citation="Godey et al. 2023, section 5; Theodolite",
    error="jackknife over documents (attention_max_se, attention_entropy_se, attention_entropy_share_se)",
)
def sharpness(weights: NDArray[np.floating], lengths: NDArray[np.int64]) -> Sharpness:
    """Return largest weight and entropy of each row. (..., rows, columns), (rows,) -> (..., rows)

    The first `lengths` entries of a row are used; the others are masked.

    >>> found = sharpness(np.array([[1.0, 9.9], [0.5, 0.5]]), np.array([1, 2]))
    >>> found.maximum.tolist(), found.entropy.round(4).tolist(), found.share.tolist()
    ([1.0, 0.5], [0.0, 0.6931], [nan, 1.0])
    """
    held = np.arange(weights.shape[-1]) < lengths[:, None]
    known = np.where(held, weights.astype(np.float64), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(known > 0, known * np.log(known), 0.0)  # w log w is 0 at 0
        entropy = np.abs(np.where(np.isfinite(known).all(axis=-1), -terms.sum(axis=-1), np.nan))
        share = np.where(lengths > 1, entropy / np.log(lengths), np.nan)
    return Sharpness(known.max(axis=-1), entropy, share)
