"""Histograms with fixed bins: fine ones while values stream by, coarser ones to show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

FINE = 8192
SHOWN = 128  # about as many bins as a panel can show
MANY, FINER = 1_000_000, 512  # so many values fill finer bins, of which a panel may show a part


@dataclass
class Bins:
    """Counts of values in equal bins between two ends fixed beforehand, and of those beyond either end."""

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
        """Return low, high and count of at most 128 equal bins (512 of a million values) between the ends.

        Each is made of whole fine ones. Values beyond an end are in a bin of their own, open there.
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


def bins_of(values: NDArray[np.float64]) -> pd.DataFrame:
    """Return the histogram of values that are all at hand, NaN left out: between round ends that hold them all."""
    known = values[np.isfinite(values)]
    if not len(known):
        return pd.DataFrame({"low": [], "high": [], "count": []}).astype({"count": "int64"})
    low, high = round_out(float(known.min()), float(known.max()))
    bins = Bins(low, high)
    bins.add(torch.from_numpy(known.astype(np.float64)))
    return bins.table()


def round_out(low: float, high: float) -> tuple[float, float]:
    """Return round numbers just outside: multiples of a power of ten about a tenth of the range.

    >>> round_out(0.93, 1.77), round_out(2.0, 2.0)
    ((0.9, 1.8), (2.0, 3.0))
    """
    step = 10.0 ** np.floor(np.log10(high - low)) / 10 if high > low else 1.0
    step = step * 10 if (high - low) / step > 50 else step
    under, over = np.floor(low / step) * step, np.ceil(high / step) * step
    return round(float(under), 12), round(float(over if over > under else under + step), 12)
