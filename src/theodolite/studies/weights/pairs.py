"""Statistics over all pairs of rows of two tables, in blocks: histograms, mean, s.d., extremes. Exact.

Products are computed in float64 at twice the cost of float32, to distinguish pairs nearest to 0 from rounding:
float32 has an error of 1e-8 in a cosine, and a vocabulary has dozens of pairs with smaller cosines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.laboratories.table_pairs import METRICS
from theodolite.studies.weights.pair_statistics import LARGEST, NEAREST, SMALLEST, Extremes, Histogram

BLOCK = 1024  # rows; a block of pairs is then 8 MB
ROGUE = 8.0  # times the median norm: values of longer rows may be in the open bins at the ends
Report = Callable[[float, int, float], None]  # share done, pairs done, seconds


@dataclass
class PairTable:
    """A table of vectors whose rows are paired: float32, and which rows may be listed as extreme."""

    name: str
    vectors: Tensor  # (rows, dim)
    listed: Tensor | None = None  # (rows,) bool; all by default

    def __post_init__(self) -> None:
        finite = torch.isfinite(self.vectors).all(dim=1)
        self.rows = finite.nonzero()[:, 0]  # only finite rows are compared
        self.norms = torch.cat(
            [block.double().norm(dim=1) for block in torch.split(self.vectors[self.rows], 4096)]
        )

    def sample(self, count: int, seed: int) -> PairTable:
        """Return the same table with at most `count` of its finite rows, chosen at random, in their order."""
        chosen = copy(self)
        if len(self.rows) > count:
            generator = torch.Generator().manual_seed(seed)
            kept = torch.randperm(len(self.rows), generator=generator)[:count].sort().values
            chosen.rows, chosen.norms = self.rows[kept], self.norms[kept]
        return chosen

    def block(self, begin: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return row numbers, vectors in float64 and norms of one block."""
        rows = self.rows[begin : begin + size]
        return rows, self.vectors[rows].double(), self.norms[begin : begin + size]

    def mean(self, *, unit: bool = False) -> Tensor:
        """Return the mean row, or with `unit` the mean of unit vectors, in float64. (dim,)"""
        total = torch.zeros(self.vectors.shape[1], dtype=torch.float64)
        count = 0
        for begin in range(0, len(self.rows), 4096):
            _, vectors, norms = self.block(begin, 4096)
            if unit:
                nonzero = norms > 0
                vectors = vectors[nonzero] / norms[nonzero, None]
            total += vectors.sum(dim=0)
            count += len(vectors)
        return total / max(count, 1)


@dataclass
class Metric:
    """Running statistics of one metric over pairs; squares are summed about a fixed centre."""

    name: str
    bins: Histogram
    centre: float
    extremes: list[Extremes]
    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    smallest: float = field(default=float("nan"))
    largest: float = field(default=float("nan"))
    beyond: int = 0  # pairs whose |value| is above the floor, if one is given

    def add(self, values: Tensor, mask: Tensor | None, listed: Tensor | None, rows: tuple[Tensor, Tensor]) -> None:
        """Add a block: values (rows, columns), a mask of those that count, and of those that may be listed."""
        flat = values.reshape(-1) if mask is None else values[mask]
        if not len(flat):
            return
        self.bins.add(flat)
        low, high = (float(end) for end in flat.aminmax())
        self.smallest, self.largest = np.fmin(self.smallest, low), np.fmax(self.largest, high)
        self.n += len(flat)
        for extremes in self.extremes:
            if extremes.floor is not None:
                self.beyond += int((flat.abs() > extremes.floor).sum())
            extremes.add(values, mask if extremes.floor is not None else _both(mask, listed), *rows)
        flat = flat - self.centre
        self.total += float(flat.sum())
        self.squares += float(flat @ flat)

    @property
    def mean(self) -> float:
        """Mean over all pairs."""
        return self.centre + self.total / self.n if self.n else float("nan")

    @property
    def sd(self) -> float:
        """Standard deviation over all pairs, with divisor n."""
        if not self.n:
            return float("nan")
        return float(np.sqrt(max(self.squares / self.n - (self.total / self.n) ** 2, 0.0)))


def all_pairs(
    left: PairTable,
    right: PairTable | None = None,
    *,
    most: int = 10,
    above: float | None = None,
    block: int = BLOCK,
    report: Report | None = None,
) -> dict[str, Metric]:
    """Accumulate dot product, cosine and distance over all pairs of rows of two tables, or unordered within one.

    `most` extreme pairs of each kind are kept. With `above`, the pairs whose |cosine| is above it are counted and
    the first thousand are kept, as the last extremes of the cosine.
    """
    other = left if right is None else right
    metrics = _metrics(left, other, most, above)
    pairs = count_pairs(left, right)
    started, done = time.monotonic(), 0
    shift = left.mean()  # does not change distances, and avoids rounding errors from a common offset
    for begin, at in _blocks(len(left.rows), len(other.rows), block, within=right is None):
        rows, x, x_norms = left.block(begin, block)
        columns, y, y_norms = other.block(at, block)
        mask = _above_diagonal(len(rows)) if right is None and begin == at else None
        listed = _listed(left, other, rows, columns)
        dot = x @ y.T
        metrics["dot"].add(dot, mask, listed, (rows, columns))
        nonzero = _nonzero_pairs(x_norms, y_norms)
        cosine = (dot / x_norms[:, None] / y_norms).clamp_(-1, 1)
        metrics["cosine"].add(cosine, _both(mask, nonzero), listed, (rows, columns))
        metrics["distance"].add(_distances(x - shift, y - shift), mask, listed, (rows, columns))
        done += int(mask.sum()) if mask is not None else dot.numel()
        if report:
            report(done / max(pairs, 1), done, time.monotonic() - started)
    return metrics


def count_pairs(left: PairTable, right: PairTable | None = None) -> int:
    """Return the number of pairs: unordered within one table."""
    n = len(left.rows)
    return n * (n - 1) // 2 if right is None else n * len(right.rows)


def exact_values(metric: str, left: PairTable, right: PairTable, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a metric of these pairs of rows by its definition. (pairs, 2) -> (pairs,)"""
    x, y = (side.vectors[torch.from_numpy(pairs[:, at])].numpy() for at, side in enumerate((left, right)))
    return METRICS[metric](x, y)


def _blocks(rows: int, columns: int, size: int, *, within: bool) -> Iterator[tuple[int, int]]:
    for begin in range(0, rows, size):
        for at in range(begin if within else 0, columns, size):
            yield begin, at


def _metrics(left: PairTable, right: PairTable, most: int, above: float | None) -> dict[str, Metric]:
    """Create the statistics; ends of histograms, centres and scales are fixed before the first pair."""
    typical = _typical_norm(left) * _typical_norm(right) or 1.0
    longest = _longest(left) * _longest(right)
    farthest = 2 * max(_typical_norm(left), _typical_norm(right)) or 1.0
    ends = {"dot": (-typical, typical), "cosine": (-1.0, 1.0), "distance": (0.0, farthest)}
    scales = {"dot": longest, "cosine": 1.0, "distance": _longest(left) + _longest(right)}
    x, y = left.mean(), right.mean()
    square = _mean_square(left) + _mean_square(right) - 2 * float(x @ y)
    centres = {
        "dot": float(x @ y),
        "cosine": float(left.mean(unit=True) @ right.mean(unit=True)),
        "distance": max(square, 0.0) ** 0.5,
    }
    metrics = {}
    for name, (low, high) in ends.items():
        kinds = (LARGEST, SMALLEST) if name == "distance" else (LARGEST, NEAREST, SMALLEST)
        extremes = [Extremes(which, most, scales[name]) for which in kinds]
        if name == "cosine" and above is not None:
            extremes.append(Extremes(LARGEST, 1000, 1.0, floor=above))
        metrics[name] = Metric(name, Histogram(low, high), centres[name], extremes)
    return metrics


def _typical_norm(side: PairTable) -> float:
    """Return a norm that 99.9 % of rows do not exceed, limited to ROGUE times the median, for histogram ends."""
    if not len(side.norms):
        return 0.0
    most, half = np.quantile(side.norms.numpy(), [0.999, 0.5], method="higher")
    return float(min(most, ROGUE * half) if half > 0 else most)


def _longest(side: PairTable) -> float:
    return float(side.norms.max()) if len(side.norms) else 0.0


def _mean_square(side: PairTable) -> float:
    return float((side.norms**2).mean()) if len(side.norms) else 0.0


def _distances(x: Tensor, y: Tensor) -> Tensor:
    squares = (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1) - 2 * (x @ y.T)
    return squares.clamp_(min=0).sqrt_()


def _above_diagonal(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).triu_(1)


def _nonzero_pairs(x_norms: Tensor, y_norms: Tensor) -> Tensor | None:
    """Return which pairs have a cosine; None if all have."""
    x, y = x_norms > 0, y_norms > 0
    return None if bool(x.all()) and bool(y.all()) else x[:, None] & y


def _listed(left: PairTable, right: PairTable, rows: Tensor, columns: Tensor) -> Tensor | None:
    """Return which pairs may be listed; None if all may."""
    x = torch.ones(len(rows), dtype=torch.bool) if left.listed is None else left.listed[rows]
    y = torch.ones(len(columns), dtype=torch.bool) if right.listed is None else right.listed[columns]
    return None if bool(x.all()) and bool(y.all()) else x[:, None] & y


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
