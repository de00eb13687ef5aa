"""Sentences: how alike the vectors of one window are to their mean."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic


class Sentences(Statistic):
    """By population: how many windows, and the sums of their intra-sentence similarity and of its square.

    A window's is the mean over its positions of cos(x, mean of its x), which is sum(x/|x|) . mean / (n |mean|).
    A window is never cut between two batches; one with fewer than two vectors that have a direction, or whose
    vectors cancel, is left out. Memory: nine numbers.
    """

    name: ClassVar[str] = "sentences"
    whole_windows: ClassVar[bool] = True

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(POPULATIONS), dtype=torch.int64)
        self.sum = torch.zeros(len(POPULATIONS), dtype=torch.float64)
        self.squares = torch.zeros(len(POPULATIONS), dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Sum the windows of the batch. O(rows x dim)."""
        windows, of_row = torch.unique(rows.places.window, return_inverse=True)
        sums = {cell: _Sums.of(rows, part, of_row[part], len(windows)) for cell, part in rows.cells}
        for number, cells in enumerate(POPULATIONS.values()):
            held = [sums[cell] for cell in cells if cell in sums]
            if held:
                similarity = _Sums.together(held).similarity()
                self.n[number] += len(similarity)
                self.sum[number] += similarity.sum()
                self.squares[number] += similarity.square().sum()

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.n += other.n
        self.sum += other.sum
        self.squares += other.squares

    def state(self) -> State:
        """n, sum and squares, each by population."""
        return {"n": self.n, "sum": self.sum, "squares": self.squares}

    def load(self, state: State) -> None:
        """Take the sums back."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]


class _Sums:
    """Of every window of a batch: how many have a direction (windows,), sums of x and of x/|x| (windows, dim)."""

    def __init__(self, n: Tensor, x: Tensor, directions: Tensor) -> None:
        self.n, self.x, self.directions = n, x, directions

    @classmethod
    def of(cls, rows: Rows, part: slice, window: Tensor, windows: int) -> _Sums:
        """Sum the rows of one cell, float64."""
        inverse = rows.inverse_norms[part].double()
        x = rows.x[part].double()
        zeros = torch.zeros(windows, x.shape[1], dtype=torch.float64)
        return cls(
            torch.zeros(windows, dtype=torch.float64).index_add_(0, window, (inverse > 0).double()),
            zeros.index_add(0, window, x),
            zeros.index_add(0, window, x * inverse[:, None]),
        )

    @classmethod
    def together(cls, parts: list[_Sums]) -> _Sums:
        """Add the cells of a population."""
        first, *rest = parts
        n, x, directions = first.n, first.x, first.directions
        for each in rest:
            n, x, directions = n + each.n, x + each.x, directions + each.directions
        return cls(n, x, directions)

    def similarity(self) -> Tensor:
        """Return the similarity of the windows that have one. (some of the windows,)"""
        norms = torch.linalg.vector_norm(self.x, dim=1)
        cosines: Tensor = torch.linalg.vecdot(self.directions, self.x) / (self.n * norms)
        return cosines[(self.n > 1) & (norms > 0)]
