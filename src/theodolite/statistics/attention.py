"""Attention: sums over the attention logits of a block, by head."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from theodolite.logit_bins import BINS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic

PARTS = 2
COUNTS = ("queries", "choices", "windows")
SUMS = ("entropy", "entropy_share", "first_mass", "top_mass")


class Attention(Statistic):
    """By head: a histogram of the logits over fixed bins, their extremes, and sums of entropies and weights.

    Sources compute the sums of a batch, because logits are too many to hand over; they are added here. The two
    parts are queries after the first position of their window, and at it. `top_mass` and `windows` are means of
    windows instead: over the queries after the first position, and over all. Memory: 16 kB per head.
    """

    name: ClassVar[str] = "attention"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        heads = frame.attention_heads
        self.sums: State = {name: torch.zeros(PARTS, dtype=torch.int64) for name in COUNTS}
        self.sums |= {name: torch.zeros(PARTS, heads, dtype=torch.float64) for name in SUMS}
        self.sums["counts"] = torch.zeros(PARTS, heads, BINS, dtype=torch.int64)
        self.sums["lowest"] = torch.full((PARTS, heads), torch.inf, dtype=torch.float64)
        self.sums["highest"] = torch.full((PARTS, heads), -torch.inf, dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add the sums that the source has computed for the batch."""
        if rows.attention is not None:
            self._add({name: rows.attention[name] for name in self.sums})

    def merge(self, other: Self) -> None:
        """Add the sums, and combine the extremes."""
        self._add(other.sums)

    def _add(self, sums: State) -> None:
        for name, tensor in sums.items():
            combine = {"lowest": torch.minimum, "highest": torch.maximum}.get(name, torch.add)
            self.sums[name] = combine(self.sums[name], tensor)

    def state(self) -> State:
        """Return the sums by name."""
        return dict(self.sums)

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the histograms."""
        return PARTS * 8 * (frame.attention_heads * (BINS + len(SUMS) + 2) + len(COUNTS))

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.sums = {name: state[name] for name in self.sums}
