"""Directions: the sum of unit vectors, from which the mean cosine over all pairs is computed."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.statistics.unit_table import CHUNK


class Directions(Statistic):
    """By cell: the number of vectors other than 0, the sum of x/|x|, and the sum of its squared coordinates.

    The mean cosine over all pairs is (|sum|^2 - n) / (n (n - 1)); the squares give each coordinate's share of it.
    Float64: float32 rounds the directions of vectors that share a large coordinate alike, an error that does not
    average out (1.6e-7 of a 1 - cos of 5e-6, with a coordinate at 3,000). Memory: 2 dim numbers per cell.
    """

    name: ClassVar[str] = "directions"
    in_estimate: ClassVar[bool] = False  # a few vectors

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(CELLS), dtype=torch.int64)
        self.sum = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)
        self.squares = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add x/|x| and its squares; zero vectors have no direction and are excluded. O(rows x dim)."""
        for cell, part in rows.cells:
            directed = rows.norms[part] > 0
            self.n[cell] += directed.sum()
            for start in range(part.start, part.stop, CHUNK):
                of = slice(start, min(start + CHUNK, part.stop))
                x = rows.x[of].to(torch.float64, copy=True)
                lengths = torch.linalg.vector_norm(x, dim=1)
                x *= torch.where(rows.norms[of] > 0, 1 / lengths, 0.0)[:, None]
                self.sum[cell] += x.sum(dim=0)
                self.squares[cell] += x.square_().sum(dim=0)

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.n += other.n
        self.sum += other.sum
        self.squares += other.squares

    def state(self) -> State:
        """Return n, sum and squares by cell."""
        return {"n": self.n, "sum": self.sum, "squares": self.squares}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of n, sum and squares."""
        return len(CELLS) * (8 + 16 * frame.dim)

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]
