"""Recall and rank churn: how far two lists of results agree, by query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Shares = NDArray[np.float64]
_CONFIDENCE = 1.96


class Interval(NamedTuple):
    """A mean over queries with its 95% interval; NaN if there is no query."""

    value: float
    low: float
    high: float


def recall_at(truth: Rows, found: Rows, k: int, *, candidates: int | None = None) -> Shares:
    """Return the share of each query's first k true results that are among the first k found. (queries,)

    truth, found: (queries, places) numbers, nearest first; a number may be repeated, since vectors may be copies of
    each other, and -1 is no result. NaN for a query without a true result. With `candidates`, results are found if
    they are among that many first places: the recall after scoring these again with the original vectors.

    >>> recall_at(np.array([[5, 7, 9]]), np.array([[7, 8, 5]]), 2).tolist()
    [0.5]
    """
    true, seen = _number_copies(truth)[:, :k], _number_copies(found)[:, : candidates or k]
    both = np.sort(np.concatenate([true, seen], axis=1), axis=1)
    common = ((both[:, 1:] == both[:, :-1]) & (both[:, 1:] >= 0)).sum(axis=1)
    possible = (true >= 0).sum(axis=1)
    return np.where(possible > 0, common / np.maximum(possible, 1), np.nan)


def churn_at(truth: Rows, found: Rows, k: int, *, candidates: int | None = None) -> Shares:
    """Return the share of each query's first k places that hold another result than before. (queries,)

    With `candidates`, the places are those after scoring that many first results again with the original vectors: a
    place keeps its result if this one and all better ones are among the candidates.

    >>> churn_at(np.array([[5, 7, 9]]), np.array([[7, 5, 9]]), 3).tolist()
    [0.6666666666666666]
    """
    known = truth[:, :k] >= 0
    if candidates is None:
        same = truth[:, :k] == found[:, :k]
    else:
        true, seen = _number_copies(truth)[:, :k], _number_copies(found)[:, :candidates]
        present = np.stack([np.isin(*pair) for pair in zip(true, seen, strict=True)]) if len(true) else known
        same = np.logical_and.accumulate(present, axis=1)
    possible = known.sum(axis=1)
    return np.where(possible > 0, (known & ~same).sum(axis=1) / np.maximum(possible, 1), np.nan)


def mean_interval(values: NDArray[Any]) -> Interval:
    """Return the mean of shares, one by query, with a 95% interval that is not empty where all are equal.

    The interval is that of Agresti and Coull (1998): of the mean after adding two queries with 0 and two with 1.

    >>> mean_interval(np.ones(96)).low < 0.97 < mean_interval(np.ones(96)).high == 1.0
    True
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(np.nan, np.nan, np.nan)
    more = np.concatenate([values, [0.0, 0.0, 1.0, 1.0]])
    half = _CONFIDENCE * more.std() / np.sqrt(len(more))
    mean = float(values.mean())
    return Interval(mean, min(mean, max(0.0, more.mean() - half)), max(mean, min(1.0, more.mean() + half)))


def find_pareto(costs: NDArray[Any], gains: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which entries no other one beats: none costs less with the same gain or gains more at the same cost.

    >>> find_pareto(np.array([4, 2, 2, 1]), np.array([1.0, 0.9, 0.8, np.nan])).tolist()
    [True, True, False, False]
    """
    better = (costs[None] <= costs[:, None]) & (gains[None] >= gains[:, None])
    strictly = (costs[None] < costs[:, None]) | (gains[None] > gains[:, None])
    return ~(better & strictly).any(axis=1) & ~np.isnan(gains)


def _number_copies(rows: Rows) -> Rows:
    """Return other numbers, equal in two lists if the n-th copy of the same number: (queries, places); -1 stays."""
    places = rows.shape[1]
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    first = np.ones_like(ordered, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = np.maximum.accumulate(np.where(first, np.arange(places), 0), axis=1)
    copy = np.empty_like(rows)
    np.put_along_axis(copy, order, np.arange(places) - start, axis=1)
    return np.where(rows >= 0, rows * (1 << 20) + copy, -1)
