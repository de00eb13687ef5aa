"""Scores of random pairs: exact moments of the cosine from sums, and tails from samples with intervals.

The score of a pair of unrelated vectors is what a threshold has to exceed. Nearly all pairs of a store are
unrelated, so the share of all pairs above a threshold is the rate of false matches there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError

Array = NDArray[np.float64]
METRICS = ("cosine", "dot", "euclidean")
BINS = 1 << 16
"""Bins of the histogram of scores: a threshold is exact to 3e-5 of their range."""
BLOCK = 1024
FEWEST_PAIRS = 20
"""Pairs above a threshold, below which the sample does not say how many there are."""
Z = 1.959964


class Moments(NamedTuple):
    """Mean and variance over pairs; NaN if there is no pair."""

    mean: float
    variance: float


def pair_moments(n: int, units: Array, products: Array) -> Moments:
    """Return the mean and variance of the cosine over all pairs of n different rows, from sums of unit vectors.

    With S = sum u and P = sum u u': sum over i != j of u_i . u_j = |S|^2 - n, and of (u_i . u_j)^2 = |P|_F^2 - n.
    units: (dim,), products: (dim, dim)

    >>> pair_moments(3, np.array([2.0, 1.0]), np.diag([2.0, 1.0]))  # (1, 0), (1, 0), (0, 1): cosines 1, 0, 0
    Moments(mean=0.3333333333333333, variance=0.2222222222222222)
    """
    if n < 2:
        return Moments(float("nan"), float("nan"))
    pairs = n * (n - 1)
    mean = float(units @ units - n) / pairs
    return Moments(mean, max(0.0, float(np.vdot(products, products) - n) / pairs - mean**2))


def cross_moments(n: int, units: Array, products: Array, m: int, others: Array, other_products: Array) -> Moments:
    """Return the mean and variance of the cosine over all n m pairs of a row of one set and a row of another.

    >>> cross_moments(1, np.array([1.0, 0.0]), np.diag([1.0, 0.0]), 2, np.array([1.0, 1.0]), np.eye(2))
    Moments(mean=0.5, variance=0.25)
    """
    if not n * m:
        return Moments(float("nan"), float("nan"))
    mean = float(units @ others) / (n * m)
    return Moments(mean, max(0.0, float(np.vdot(products, other_products)) / (n * m) - mean**2))


@dataclass(frozen=True, slots=True)
class Share:
    """The share of pairs that score above a threshold, with a 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Threshold:
    """The score that a share `rate` of all pairs exceeds, with a 95% interval; None with a reason if unknown."""

    rate: float
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class PairScores:
    """Scores of all pairs of a sample of rows, or of a sample of queries and a sample of rows.

    rows      (m, dim) sample of `of` rows of a store
    queries   (q, dim) sample of `of_queries` queries; None for pairs of different rows
    metric    "cosine", "dot" or "euclidean"; a distance is counted as its negative, so that higher is closer

    Intervals treat rows (and queries) as the independent draws, not pairs: each row's share of pairs above the
    threshold is one value, and the error of their mean is that of a U-statistic (Hoeffding 1948, Sen 1960), times
    sqrt(1 - m/of) for a sample of m of `of` rows. The interval of a threshold is that of the share there, inverted
    (Woodruff 1952). Cost: 2 m^2 dim float32 products, and memory for a block of 1,024 rows.
    """

    def __init__(
        self,
        rows: Tensor,
        of: int,
        *,
        metric: str = "cosine",
        queries: Tensor | None = None,
        of_queries: int = 0,
    ) -> None:
        self.metric = metric
        self.rows, self.of = _prepare(rows, metric), of
        self.queries, self.of_queries = None if queries is None else _prepare(queries, metric), of_queries
        left, m = self.rows if self.queries is None else self.queries, len(self.rows)
        self.pairs = len(left) * (m - 1 if self.queries is None else m)
        """Ordered pairs, of which those of different rows are counted twice."""
        self.range = self._range()
        self._low, self._high = self.range
        self._counts = self._histogram() if self.pairs else np.zeros(BINS)

    def share_above(self, threshold: float) -> Share:
        """Return the share of pairs that score above a threshold."""
        return self.shares_above([threshold])[0]

    def shares_above(self, thresholds: Sequence[float]) -> list[Share]:
        """Return the share of pairs above each threshold."""
        by_row, by_query = self._exceeding(thresholds)
        found = []
        for of_rows, of_queries in zip(by_row, by_query, strict=True):
            value = float(of_rows.mean()) if len(of_rows) else float("nan")
            found.append(Share(value, *_log_interval(value, self._error(of_rows, of_queries), self.pairs)))
        return found

    def thresholds(self, rates: Sequence[float]) -> list[Threshold]:
        """Return the score that each share of pairs exceeds."""
        for rate in rates:
            if not 0 < rate < 1:
                raise InputError(f"--false-match-rate must be between 0 and 1 (got {rate}).")
        values = [self._quantile(rate) for rate in rates]
        shares = self.shares_above(values)
        found = []
        for rate, value, share in zip(rates, values, shares, strict=True):
            distinct = self.pairs // 2 if self.queries is None else self.pairs
            if not self.pairs or rate * distinct < FEWEST_PAIRS:
                least = f"; the lowest rate is {FEWEST_PAIRS / distinct:.1g}" if distinct else ""
                reason = f"fewer than {FEWEST_PAIRS} of {distinct:,} sampled pairs would exceed it{least}"
                found.append(Threshold(rate, None, reason=reason))
                continue
            # The interval of the share, moved to be about the rate itself.
            ratio_low, ratio_high = (
                (share.low / share.value, share.high / share.value) if share.value else (1.0, 1.0)
            )
            low, high = self._quantile(rate * ratio_high), self._quantile(rate * ratio_low)
            found.append(Threshold(rate, value, min(low, value), max(high, value)))
        return found

    def curve(self, points: int = 120) -> tuple[Array, Array]:
        """Return scores over the range, and the density of pairs there: each (points,)."""
        edges = np.linspace(self._low, self._high, points + 1)
        held = np.add.reduceat(self._counts, (np.arange(points) * BINS) // points)
        return (edges[1:] + edges[:-1]) / 2, held / max(1, held.sum()) / (edges[1] - edges[0])

    def _blocks(self) -> list[slice]:
        left = self.rows if self.queries is None else self.queries
        return [slice(start, start + BLOCK) for start in range(0, len(left), BLOCK)]

    def _scores(self, part: slice) -> Tensor:
        """Return the scores of some queries, or rows, with all rows; minus infinity for a row with itself."""
        left = (self.rows if self.queries is None else self.queries)[part]
        scores = -torch.cdist(left, self.rows) if self.metric == "euclidean" else left @ self.rows.T
        if self.queries is None:
            scores[torch.arange(len(left)), torch.arange(part.start, part.start + len(left))] = -torch.inf
        return scores

    def _range(self) -> tuple[float, float]:
        if self.metric == "cosine" or not self.pairs:
            return -1.0, 1.0 + 1e-6
        scores = [self._scores(part) for part in self._blocks()]
        low = min(float(torch.where(one > -torch.inf, one, torch.inf).min()) for one in scores)
        high = max(float(one.max()) for one in scores)
        return low, high + 1e-6 * max(1e-30, high - low, abs(high))

    def _histogram(self) -> Array:
        counts = np.zeros(BINS)
        for part in self._blocks():
            scores = self._scores(part).sub_(self._low).mul_(BINS / (self._high - self._low))
            bins = scores.clamp_(0, BINS - 1).int()
            counts += torch.bincount(bins.flatten(), minlength=BINS).numpy()
        if self.queries is None:
            counts[0] -= len(self.rows)  # each with itself
        return counts

    def _quantile(self, rate: float) -> float:
        """Return the score that a share of the pairs exceeds, interpolated within a bin."""
        above = np.concatenate([np.cumsum(self._counts[::-1])[::-1], [0.0]])  # pairs at or above each edge
        wanted = min(rate, 1.0) * self.pairs
        at = int(np.searchsorted(-above, -wanted, side="right")) - 1  # the last edge with as many pairs
        at = min(max(at, 0), BINS - 1)
        within = (above[at] - wanted) / self._counts[at] if self._counts[at] else 0.0
        return float(self._low + (at + within) * (self._high - self._low) / BINS)

    def _exceeding(self, thresholds: Sequence[float]) -> tuple[Array, Array]:
        """Return the share above each threshold by row and by query: (thresholds, rows), (thresholds, queries)."""
        order, levels = np.argsort(thresholds), len(thresholds) + 1
        edges = torch.tensor([thresholds[at] for at in order], dtype=torch.float32)
        rows, queries = np.zeros((len(self.rows), levels)), np.zeros((0, levels))
        for part in self._blocks() if self.pairs else []:
            passed = torch.bucketize(self._scores(part), edges, out_int32=True)  # the thresholds that it exceeds
            rows += _count_by_column(passed, levels)
            if self.queries is not None:
                queries = np.concatenate([queries, _count_by_column(passed.T, levels)])
        above_rows, above_queries = np.empty((levels - 1, len(rows))), np.empty((levels - 1, len(queries)))
        others = len(self.rows) - 1 if self.queries is None else len(self.queries)
        for above, counts, count in ((above_rows, rows, others), (above_queries, queries, len(self.rows))):
            above[order] = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, 1:].T / max(1, count)
        return above_rows, above_queries

    def _error(self, by_row: Array, by_query: Array) -> float:
        rows = _variance_of_mean(by_row, self.of)
        if self.queries is None:
            return float(np.sqrt(4 * rows))
        return float(np.sqrt(rows + _variance_of_mean(by_query, self.of_queries)))


def _count_by_column(levels: Tensor, count: int) -> Array:
    """Return how often each level below `count` occurs in each column: (columns, count)."""
    places = levels + count * torch.arange(levels.shape[1], dtype=torch.int32)
    counted = torch.bincount(places.flatten(), minlength=count * levels.shape[1])
    return counted.reshape(-1, count).numpy().astype(np.float64)


def _prepare(vectors: Tensor, metric: str) -> Tensor:
    if metric not in METRICS:
        raise InputError(f"--metric must be one of {', '.join(METRICS)} (got {metric!r}).")
    wide = vectors.double()
    return (torch.nn.functional.normalize(wide, dim=1) if metric == "cosine" else wide).float()


def _variance_of_mean(values: Array, of: int) -> float:
    """Return the variance of the mean of a sample without replacement from `of` values."""
    if len(values) < 2:
        return float("nan")
    return float(values.var(ddof=1) / len(values) * max(0.0, 1 - len(values) / of))


def _log_interval(share: float, error: float, pairs: int) -> tuple[float, float]:
    """Return a 95% interval of a share by the error of its logarithm, which keeps it above 0."""
    if not share > 0 or not np.isfinite(error):
        return 0.0, min(1.0, 3.7 / max(1, pairs // 2))  # no pair: the upper limit of Poisson at 0
    factor = float(np.exp(Z * error / share))
    return share / factor, min(1.0, share * factor)
