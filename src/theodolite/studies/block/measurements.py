"""Measurements of one pass through a block: norms and cosines of states, attention scores and their softmax."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from theodolite.measures.cosine import mean_cosine
from theodolite.measures.laboratories.attention import RowWeights, expected_error, extremes, row_weights
from theodolite.studies.block.isolated_block import IsolatedBlock, QueriesAndKeys

BINS = 64
Tables = dict[str, pd.DataFrame]


class StateNorms(NamedTuple):
    """Of many states: the mean of their norms, the norm of their mean, and the mean cosine of all pairs.

    The paper treats the first two as one; they are equal only if all states are equal.
    """

    mean_norm: float
    norm_of_mean: float
    rms_norm: float
    mean_cosine: float


def measure_states(states: Tensor) -> StateNorms:
    """Measure states in float64. Zero vectors have no direction and are excluded from the cosine. (..., dim)"""
    return _measure(states.flatten(0, -2)[None])[0]


def measure_heads(vectors: Tensor) -> list[StateNorms]:
    """Measure queries or keys of each head. (sequences, heads, positions, width)"""
    return _measure(vectors.transpose(0, 1).flatten(1, 2))


def mean_of_heads(vectors: Tensor) -> Tensor:
    """Return each head's mean in float64. (sequences, heads, positions, width) -> (heads, width)"""
    wide = vectors.transpose(0, 1).flatten(1, 2).double()
    return _weighted_sums(torch.full(wide.shape[:2], 1 / wide.shape[1], dtype=torch.float64), wide)


def _measure(groups: Tensor) -> list[StateNorms]:
    """Measure every group of vectors. (groups, vectors, dim)"""
    wide = groups.double()
    norms = torch.linalg.vector_norm(wide, dim=-1)
    mean = _weighted_sums(torch.full_like(norms, 1 / norms.shape[1]), wide)
    directions = _weighted_sums(torch.where(norms > 0, 1 / norms, 0.0), wide).numpy()
    counts = (norms > 0).sum(dim=1).tolist()
    columns = zip(norms.mean(dim=1), mean.norm(dim=1), norms.square().mean(dim=1).sqrt(), strict=True)
    return [
        StateNorms(float(norm), float(length), float(rms), mean_cosine(count, total))
        for (norm, length, rms), count, total in zip(columns, counts, directions, strict=True)
    ]


def _weighted_sums(weights: Tensor, vectors: Tensor) -> Tensor:
    """Sum vectors times weights by a matrix product, faster than a mean. (groups, n), (groups, n, dim)"""
    return torch.bmm(weights[:, None], vectors)[:, 0]


@torch.no_grad()
def measure_attention(block: IsolatedBlock, captured: QueriesAndKeys, states: Tensor) -> Tables:
    """Return the tables heads, scores, histogram, softmax and extremes of one pass. states: input of the block"""
    queries, keys = block.rotate(captured.queries), block.rotate(captured.keys)
    totals = ScoreTotals(block)
    for query, key in zip(queries, keys, strict=True):
        totals.add(block.scores(query, key))
    tables = totals.tables(_predict_scores(block, queries, keys))
    return {"heads": _head_table(block, captured, queries, keys, states), **tables}


class ScoreTotals:
    """Accumulates statistics of the rows of scores over sequences."""

    def __init__(self, block: IsolatedBlock) -> None:
        self.mask, self.lengths = block.mask, block.lengths.numpy()
        longest = int(self.lengths.max())
        self.least = [1, longest // 2] if block.causal and longest > 1 else [1]
        self.rows: list[RowWeights] = []
        self.ends: list[dict[str, float]] = []
        self.histogram = ScoreHistogram()

    def add(self, scores: Tensor) -> None:
        """Add one sequence. (heads, positions, positions)"""
        known = scores if self.mask is None else scores[:, self.mask]
        self.histogram.add(known)
        rows = row_weights(scores.numpy(), self.lengths)
        self.rows.append(rows)
        self.ends += [{"least_length": least, **extremes(rows, self.lengths, least)} for least in self.least]

    def tables(self, predicted: Tensor) -> Tables:
        """Return the tables scores, histogram, softmax and extremes."""
        rows = RowWeights(*(np.stack(part).astype(np.float64) for part in zip(*self.rows, strict=True)))
        return {
            "scores": self._scores(rows, predicted),
            "histogram": self.histogram.table(),
            "softmax": self._softmax(rows),
            "extremes": pd.DataFrame(self.ends).groupby("least_length", as_index=False).mean(),
        }

    def _scores(self, rows: RowWeights, predicted: Tensor) -> pd.DataFrame:
        """One row per head: number of scores, their mean, standard deviation and extremes."""
        count = int(self.lengths.sum()) * len(rows.total)
        mean = rows.total.sum(axis=(0, 2)) / count
        square = rows.square.sum(axis=(0, 2)) / count
        return pd.DataFrame(
            {
                "head": np.arange(len(mean)),
                "n": count,
                "mean": mean,
                "sd": np.sqrt(np.maximum(square - mean**2, 0)),
                "low": rows.low.min(axis=(0, 2)),
                "high": rows.high.max(axis=(0, 2)),
                "predicted": predicted.numpy(),
            }
        )

    def _softmax(self, rows: RowWeights) -> pd.DataFrame:
        """One row per length: the mean over sequences, heads and rows of that length."""
        means = {name: getattr(rows, name).mean(axis=(0, 1)) for name in ("maximum", "median", "minimum")}
        table = pd.DataFrame({"length": self.lengths, "rows": rows.total.shape[0] * rows.total.shape[1], **means})
        by_length = table.groupby("length", as_index=False).mean()
        return by_length.assign(rows=table.groupby("length")["rows"].sum().to_numpy())


def _predict_scores(block: IsolatedBlock, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mean score if every row attended everywhere: E q . E k times the scale. (heads,)"""
    shared = block.projections.heads // block.projections.key_heads
    query, key = mean_of_heads(queries), mean_of_heads(keys).repeat_interleave(shared, dim=0)
    return (query * key).sum(dim=1) * block.projections.scale


class ScoreHistogram:
    """Counts in bins whose width is a power of 2 and whose edges are multiples of it, so the range may grow."""

    def __init__(self) -> None:
        self.width = 0.0
        self.counts: dict[int, int] = {}

    def add(self, scores: Tensor) -> None:
        """Count these scores, of any shape; the range of the first ones determines the width."""
        low, high = map(float, scores.aminmax())
        if not self.width:
            self.width = 2.0 ** math.floor(math.log2((high - low) / BINS)) if high > low else 1.0
        first, last = math.floor(low / self.width), math.floor(high / self.width) + 1
        counts = torch.histc(scores, last - first, first * self.width, last * self.width)
        for number, count in enumerate(counts.tolist(), first):
            self.counts[number] = self.counts.get(number, 0) + int(count)

    def table(self) -> pd.DataFrame:
        """Return every bin from the first to the last, including empty ones."""
        bins = np.arange(min(self.counts), max(self.counts) + 1)
        counts = [self.counts.get(each, 0) for each in bins.tolist()]
        return pd.DataFrame({"left": bins * self.width, "right": (bins + 1) * self.width, "count": counts})


def _head_table(
    block: IsolatedBlock, captured: QueriesAndKeys, queries: Tensor, keys: Tensor, states: Tensor
) -> pd.DataFrame:
    """One row per head of queries and of keys, before rotation and, if there is a rotation, after it."""
    read = block.projections.expected(captured.reads.flatten(0, -2).double().mean(dim=0))
    raw = block.projections.expected(states.flatten(0, -2).double().mean(dim=0))
    rows: list[dict[str, Any]] = []
    for place, (kind, before, after) in enumerate(
        [("query", captured.queries, queries), ("key", captured.keys, keys)]
    ):
        mean = mean_of_heads(before).numpy()
        errors, raw_errors = (expected_error(mean, each[place].numpy()) for each in (read, raw))
        for head, norms in enumerate(measure_heads(before)):
            expected = {"expected_error": errors[head], "expected_error_of_input": raw_errors[head]}
            rows.append({"head": head, "of": kind, "rotated": False, **norms._asdict(), **expected})
        if block.rotation is not None:
            for head, norms in enumerate(measure_heads(after)):
                rows.append({"head": head, "of": kind, "rotated": True, **norms._asdict()})
    return pd.DataFrame(rows)
