"""The scores of a block and their softmax, a sequence at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from theodolite.measures.attention import Rows, expected_error, extremes, row_weights
from theodolite.studies.block.lengths import by_head, mean_of_heads
from theodolite.studies.block.projections import Seen
from theodolite.studies.block.subject import Subject

BINS = 64
Tables = dict[str, pd.DataFrame]


@torch.no_grad()
def attending(subject: Subject, seen: Seen, entered: Tensor) -> Tables:
    """Return the tables heads, scores, histogram, softmax and extremes of one pass. entered: the block's input"""
    queries, keys = subject.turned(seen.queries), subject.turned(seen.keys)
    scored = _Scored(subject)
    for query, key in zip(queries, keys, strict=True):
        scored.take(subject.scores(query, key))
    tables = scored.tables(_predicted(subject, queries, keys))
    return {"heads": _heads(subject, seen, queries, keys, entered), **tables}


class _Scored:
    """Adds up what rows of scores tell, over sequences."""

    def __init__(self, subject: Subject) -> None:
        self.mask, self.lengths = subject.mask, subject.lengths.numpy()
        longest = int(self.lengths.max())
        self.least = [1, longest // 2] if subject.causal and longest > 1 else [1]
        self.rows: list[Rows] = []
        self.ends: list[dict[str, float]] = []
        self.histogram = _Histogram()

    def take(self, scores: Tensor) -> None:
        """Take in one sequence. (heads, positions, positions)"""
        known = scores if self.mask is None else scores[:, self.mask]
        self.histogram.take(known)
        rows = row_weights(scores.numpy(), self.lengths)
        self.rows.append(rows)
        self.ends += [{"least_length": least, **extremes(rows, self.lengths, least)} for least in self.least]

    def tables(self, predicted: Tensor) -> Tables:
        """Return the tables scores, histogram, softmax and extremes."""
        rows = Rows(*(np.stack(part).astype(np.float64) for part in zip(*self.rows, strict=True)))
        return {
            "scores": self._scores(rows, predicted),
            "histogram": self.histogram.table(),
            "softmax": self._softmax(rows),
            "extremes": pd.DataFrame(self.ends).groupby("least_length", as_index=False).mean(),
        }

    def _scores(self, rows: Rows, predicted: Tensor) -> pd.DataFrame:
        """One row a head: how many scores, their mean and deviation, their ends."""
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

    def _softmax(self, rows: Rows) -> pd.DataFrame:
        """One row a length: the mean over sequences, heads and rows of that length."""
        found = {name: getattr(rows, name).mean(axis=(0, 1)) for name in ("maximum", "median", "minimum")}
        table = pd.DataFrame({"length": self.lengths, "rows": rows.total.shape[0] * rows.total.shape[1], **found})
        means = table.groupby("length", as_index=False).mean()
        return means.assign(rows=table.groupby("length")["rows"].sum().to_numpy())


def _predicted(subject: Subject, queries: Tensor, keys: Tensor) -> Tensor:
    """Return what the mean score would be if every row saw everything: E q . E k times the scale. (heads,)"""
    shared = subject.projections.heads // subject.projections.key_heads
    query, key = mean_of_heads(queries), mean_of_heads(keys).repeat_interleave(shared, dim=0)
    return (query * key).sum(dim=1) * subject.projections.scale


class _Histogram:
    """Counts in bins of one width, a power of 2 and aligned with 0, so that they need not be known beforehand."""

    def __init__(self) -> None:
        self.width = 0.0
        self.counts: dict[int, int] = {}

    def take(self, scores: Tensor) -> None:
        """Count these numbers, of any shape; their range fixes the width the first time."""
        low, high = map(float, scores.aminmax())
        if not self.width:
            self.width = 2.0 ** math.floor(math.log2((high - low) / BINS)) if high > low else 1.0
        first, last = math.floor(low / self.width), math.floor(high / self.width) + 1
        found = torch.histc(scores, last - first, first * self.width, last * self.width)
        for number, count in enumerate(found.tolist(), first):
            self.counts[number] = self.counts.get(number, 0) + int(count)

    def table(self) -> pd.DataFrame:
        """Return every bin from the first to the last, empty ones too."""
        bins = np.arange(min(self.counts), max(self.counts) + 1)
        counts = [self.counts.get(each, 0) for each in bins.tolist()]
        return pd.DataFrame({"left": bins * self.width, "right": (bins + 1) * self.width, "count": counts})


def _heads(subject: Subject, seen: Seen, queries: Tensor, keys: Tensor, entered: Tensor) -> pd.DataFrame:
    """One row a head of queries and of keys, before rotation and, where there is one, after it."""
    read = subject.projections.expected(seen.reads.flatten(0, -2).double().mean(dim=0))
    raw = subject.projections.expected(entered.flatten(0, -2).double().mean(dim=0))
    rows: list[dict[str, Any]] = []
    for place, (kind, before, after) in enumerate([("query", seen.queries, queries), ("key", seen.keys, keys)]):
        mean = mean_of_heads(before).numpy()
        errors, raw_errors = (expected_error(mean, each[place].numpy()) for each in (read, raw))
        for head, found in enumerate(by_head(before)):
            told = {"expected_error": errors[head], "expected_error_of_input": raw_errors[head]}
            rows.append({"head": head, "of": kind, "rotated": False, **found._asdict(), **told})
        if subject.turn is not None:
            for head, found in enumerate(by_head(after)):
                rows.append({"head": head, "of": kind, "rotated": True, **found._asdict()})
    return pd.DataFrame(rows)
