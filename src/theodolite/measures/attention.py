"""Attention by rows: the largest, middle and smallest weight of each softmax. Masked entries never enter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.floating]


class Rows(NamedTuple):
    """Of every row of scores: softmax weights, and what the scores themselves sum to. (..., rows) each"""

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
    definition="Of the softmax of each row of q k^T/sqrt(d_k), over the entries that are not masked: largest, "
    "median (of an even number, the mean of the two in the middle) and smallest; the mean over sequences, heads "
    "and rows of equal length.",
    cost="one sort a row",
    citation="Godey et al. 2023, figure 9",
)
def row_weights(scores: NDArray[np.float32], lengths: NDArray[np.int64]) -> Rows:
    """Return what is told of each row. Sorts `scores` in place. (..., rows, columns), (rows,) -> (..., rows)

    Masked entries are +inf, so that sorting puts them last; a row has `lengths` others, at least one. The softmax
    keeps the order of the scores, so its three weights are those of three scores: it is not made.

    >>> rows = row_weights(np.log(np.array([[1, 2, 5], [3, 1, np.inf]], dtype=np.float32)), np.array([3, 2]))
    >>> rows.maximum.round(3).tolist(), rows.median.round(3).tolist(), rows.minimum.round(3).tolist()
    ([0.625, 0.75], [0.25, 0.5], [0.125, 0.25])
    """
    scores.sort(axis=-1)
    high = _at(scores, lengths - 1)
    whole = bool((lengths == scores.shape[-1]).all())
    if whole:
        known = scores
    else:
        held = np.arange(scores.shape[-1]) < lengths[:, None]
        known = np.where(held, scores, np.float32(0))
    weights = np.exp(known - high[..., None])
    if not whole:
        weights *= held
    mass = weights.sum(axis=-1)
    middle = (_at(weights, (lengths - 1) // 2) + _at(weights, lengths // 2)) / 2
    return Rows(
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
    definition="Largest and smallest softmax weight over all rows of a sequence that have at least least_length "
    "entries: of each head, then the mean over heads and sequences; _any_head: over all heads, then the mean over "
    "sequences.",
    cost="from the rows",
    citation="Godey et al. 2023, figure 10",
)
def extremes(rows: Rows, lengths: NDArray[np.int64], least: int) -> dict[str, float]:
    """Return the extremes of one sequence. Rows of (heads, rows)

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
    definition="|E q - (W E x + b)| / |E q|, x what the projection reads: 0 but for rounding. _of_input: x what "
    "enters the block, as the paper has it; not 0 where a norm stands between. After rotation undefined.",
    cost="one product",
    citation="Godey et al. 2023, equation 1",
)
def expected_error(mean: Floats, expected: Floats) -> Floats:
    """Return the distance relative to the mean, NaN where the mean is 0. (..., dim) each -> (...)

    >>> expected_error(np.array([3.0, 4.0]), np.array([3.0, 3.0])).item()
    0.2
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        length = np.linalg.norm(mean, axis=-1)
        return np.asarray(np.where(length > 0, np.linalg.norm(mean - expected, axis=-1) / length, np.nan))


def _at(rows: Floats, places: NDArray[np.int64]) -> Floats:
    """Return the entry at each row's place. (..., rows, columns), (rows,) -> (..., rows)"""
    return rows[..., np.arange(len(places)), places]
