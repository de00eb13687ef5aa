"""Sentences: the similarity of the vectors of a window to their mean."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic


class Sentences(Statistic):
    """By population: the number of windows, and the sums of their intra-sentence similarity and of its square.

    The similarity of a window is the mean over its positions of cos(x, mean of its x), which is
    sum(x/|x|) . mean / (n |mean|). A window is never split between batches. It is excluded if fewer than two of
    its vectors differ from 0, or if they cancel. Memory: nine numbers.
    """

    name: ClassVar[str] = "sentences"
    in_estimate: ClassVar[bool] = False  # nine numbers
    whole_windows: ClassVar[bool] = True

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(POPULATIONS), dtype=torch.int64)
        self.sum = torch.zeros(len(POPULATIONS), dtype=torch.float64)
        self.squares = torch.zeros(len(POPULATIONS), dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add the windows of the batch. O(rows x dim)."""
        windows, of_row = torch.unique(rows.places.window, return_inverse=True)
        sums = {cell: _WindowSums.of(rows, part, of_row[part], len(windows)) for cell, part in rows.cells}
        for number, cells in enumerate(POPULATIONS.values()):
            parts = [sums[cell] for cell in cells if cell in sums]
            if parts:
                similarity = _WindowSums.add(parts).similarity()
                self.n[number] += len(similarity)
                self.sum[number] += similarity.sum()
                self.squares[number] += similarity.square().sum()

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.n += other.n
        self.sum += other.sum
        self.squares += other.squares

    def state(self) -> State:
        """Return n, sum and squares by population."""
        return {"n": self.n, "sum": self.sum, "squares": self.squares}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of nine numbers."""
        return 3 * 8 * len(POPULATIONS)

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]


class _WindowSums:
    """Sums of each window of a batch: vectors other than 0 (windows,), x and x/|x| (windows, dim)."""

    def __init__(self, n: Tensor, x: Tensor, directions: Tensor) -> None:
        self.n, self.x, self.directions = n, x, directions

    @classmethod
    def of(cls, rows: Rows, part: slice, window: Tensor, windows: int) -> _WindowSums:
        """Sum the rows of one cell in float64."""
        inverse = rows.inverse_norms[part].double()
        x = rows.x[part].double()
        zeros = torch.zeros(windows, x.shape[1], dtype=torch.float64)
        return cls(
            torch.zeros(windows, dtype=torch.float64).index_add_(0, window, (inverse > 0).double()),
            zeros.index_add(0, window, x),
            zeros.index_add(0, window, x * inverse[:, None]),
        )

    @classmethod
    def add(cls, parts: list[_WindowSums]) -> _WindowSums:
        """Add the cells of a population."""
        first, *others = parts
        n, x, directions = first.n, first.x, first.directions
        for each in others:
            n, x, directions = n + each.n, x + each.x, directions + each.directions
        return cls(n, x, directions)

    def similarity(self) -> Tensor:
        """Return the similarity of each window that has one. (up to windows,)"""
        norms = torch.linalg.vector_norm(self.x, dim=1)
        cosines: Tensor = torch.linalg.vecdot(self.directions, self.x) / (self.n * norms)
        return cosines[(self.n > 1) & (norms > 0)]
