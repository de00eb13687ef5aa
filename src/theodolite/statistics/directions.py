"""Directions: sums of unit vectors, which hold the mean cosine over all pairs."""

from __future__ import annotations

from typing import ClassVar, Self

import torch

from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic


class Directions(Statistic):
    """By cell: how many vectors have a direction, the sum of x/|x|, and the sum of its squared coordinates.

    The mean cosine over all pairs is (|sum|^2 - n) / (n (n - 1)); the squares give each coordinate's share of it.
    A product of the matrix with one vector per batch, accumulated in float64. Memory: 2 dim numbers a cell.
    """

    name: ClassVar[str] = "directions"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(CELLS), dtype=torch.int64)
        self.sum = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)
        self.squares = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add x/|x| and its squares; zero vectors have no direction and are left out. O(rows x dim)."""
        for cell, part in rows.cells:
            weights = rows.inverse_norms[part]
            directions = rows.x[part] * weights[:, None]
            self.n[cell] += (weights > 0).sum()
            self.sum[cell] += directions.sum(dim=0)
            self.squares[cell] += directions.square_().sum(dim=0)

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.n += other.n
        self.sum += other.sum
        self.squares += other.squares

    def state(self) -> State:
        """n, sum, squares, each by cell."""
        return {"n": self.n, "sum": self.sum, "squares": self.squares}

    def load(self, state: State) -> None:
        """Take the sums back."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]
