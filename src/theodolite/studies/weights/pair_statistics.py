"""Streaming statistics of values of pairs: histograms with fixed bins, and the pairs with extreme values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

FINE = 8192
SHOWN = 128  # about the number of bins that a panel can show
MANY, FINER = 1_000_000, 512  # above this number of values, a table has finer bins
LARGEST, SMALLEST, NEAREST = "largest", "smallest", "nearest 0"
GRAIN = 1e-13  # relative to the scale of the values: values that differ by less are ties, ordered by row numbers
SPARE = 32  # pairs kept beyond k, so that exact values of those kept decide at the end


@dataclass
class Histogram:
    """Counts of values in equal bins between two fixed ends, and counts of values below and above them."""

    low: float
    high: float
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(FINE, dtype=np.int64))
    below: int = 0
    above: int = 0

    def add(self, values: Tensor) -> None:
        """Count these values, (values,) in float64; none is NaN."""
        counted = torch.histc(values, FINE, self.low, self.high)  # as floats, exact below 2^53
        self.counts += counted.numpy().astype(np.int64)
        if int(counted.sum()) < values.numel():
            self.below += int((values < self.low).sum())
            self.above += int((values > self.high).sum())

    def table(self) -> pd.DataFrame:
        """Return low, high and count of at most 128 equal bins (512 for more than a million values).

        Each bin joins fine bins. Values below and above the ends are in two additional, open bins.
        """
        used = np.flatnonzero(self.counts)
        shown = FINER if self.counts.sum() > MANY else SHOWN
        rows: list[tuple[float, float, int]] = []
        if self.below:
            rows.append((-np.inf, self.low, self.below))
        if len(used):
            first, last = int(used[0]), int(used[-1])
            together = 1
            while last // together - first // together + 1 > shown:
                together *= 2
            edges = np.linspace(self.low, self.high, FINE + 1)[::together]
            summed = self.counts.reshape(-1, together).sum(axis=1)
            kept = range(first // together, last // together + 1)
            rows += [(float(edges[at]), float(edges[at + 1]), int(summed[at])) for at in kept]
        if self.above:
            rows.append((self.high, np.inf, self.above))
        return pd.DataFrame(rows, columns=["low", "high", "count"]).astype({"count": "int64"})


def histogram_of(values: NDArray[np.float64]) -> pd.DataFrame:
    """Return the histogram of an array between round ends that contain all values, ignoring NaN."""
    known = values[np.isfinite(values)]
    if not len(known):
        return pd.DataFrame({"low": [], "high": [], "count": []}).astype({"count": "int64"})
    low, high = round_out(float(known.min()), float(known.max()))
    histogram = Histogram(low, high)
    histogram.add(torch.from_numpy(known.astype(np.float64)))
    return histogram.table()


def round_out(low: float, high: float) -> tuple[float, float]:
    """Round a range outwards to multiples of a power of ten that is about a tenth of the range.

    >>> round_out(0.93, 1.77), round_out(2.0, 2.0)
    ((0.9, 1.8), (2.0, 3.0))
    """
    step = 10.0 ** np.floor(np.log10(high - low)) / 10 if high > low else 1.0
    step = step * 10 if (high - low) / step > 50 else step
    under, over = np.floor(low / step) * step, np.ceil(high / step) * step
    return round(float(under), 12), round(float(over if over > under else under + step), 12)


@dataclass
class Extremes:
    """The `most` extreme pairs of a stream, whatever the size of blocks; `scale` is the largest possible value."""

    which: str
    most: int
    scale: float
    floor: float | None = None  # if given, only pairs with |value| above it
    key: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def add(self, values: Tensor, mask: Tensor | None, left: Tensor, right: Tensor) -> None:
        """Add a block: values (rows, columns), a mask of those that count, and the numbers of rows and columns."""
        keys = self._keys(values)
        worst = self.key[-1] if len(self.key) >= self.most + SPARE else np.inf
        limit = float((worst + 1) * self._grain)
        if float(keys.amin()) > limit:
            return
        near = keys <= limit
        if self.floor is not None:
            near &= values.abs() > self.floor
        if mask is not None:
            near &= mask
        at = near.nonzero()
        if not len(at):
            return
        rounded = np.round(keys[at[:, 0], at[:, 1]].numpy() / self._grain)
        pairs = np.stack([left[at[:, 0]].numpy(), right[at[:, 1]].numpy()], axis=1)
        self._keep(np.concatenate([self.key, rounded]), np.concatenate([self.pairs, pairs]))

    @property
    def _grain(self) -> float:
        return GRAIN * (self.scale or 1.0)

    def _keys(self, values: Tensor) -> Tensor:
        if self.floor is not None:
            return -values.abs()
        if self.which == NEAREST:
            return values.abs()
        return -values if self.which == LARGEST else values

    def _keep(self, key: NDArray[np.float64], pairs: NDArray[np.int64]) -> None:
        size = self.most + SPARE
        if len(key) > size:
            first = key <= np.partition(key, size - 1)[size - 1]
            key, pairs = key[first], pairs[first]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], key))[:size]
        self.key, self.pairs = key[order], pairs[order]

    def best(self, exact: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the indices of the `most` best of the kept pairs, ordered by their exact values (pairs,)."""
        keys = self._keys(torch.from_numpy(exact)).numpy()
        # Values of nearest pairs may be smaller than the grain, so they are ordered by exact values.
        key = keys if self.which == NEAREST else np.round(keys / self._grain)
        return np.lexsort((self.pairs[:, 1], self.pairs[:, 0], key))[: self.most]
