"""Groups: the same sums for 20 groups of documents, whose spread gives the error bars."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic


class Groups(Statistic):
    """By cell and document group: n, sum of x - c, sum of |x - c|^2, how many have a direction, sum of x/|x|.

    One product of a (2 x 20, rows) matrix with the batch, float32 within a batch and float64 between.
    Memory: 320 dim bytes a cell.
    """

    name: ClassVar[str] = "groups"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        shape = (len(CELLS), GROUPS)
        self.n = torch.zeros(shape, dtype=torch.int64)
        self.sum = torch.zeros(*shape, frame.dim, dtype=torch.float64)
        self.squares = torch.zeros(shape, dtype=torch.float64)
        self.directed = torch.zeros(shape, dtype=torch.int64)
        self.directions = torch.zeros(*shape, frame.dim, dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add the rows to their documents' groups. O(rows x dim x 40)."""
        for cell, part in rows.cells:
            group, y, inverse = rows.places.group[part], rows.centred[part], rows.inverse_norms[part]
            weights = y.new_zeros(2 * GROUPS, len(group))
            at = torch.arange(len(group))
            weights[group, at] = 1
            weights[group + GROUPS, at] = inverse
            products = (weights @ y).double()
            inverses = torch.zeros(GROUPS, dtype=torch.float64).index_add_(0, group, inverse.double())
            self.n[cell] += torch.bincount(group, minlength=GROUPS)
            self.sum[cell] += products[:GROUPS]
            self.squares[cell].index_add_(0, group, torch.linalg.vecdot(y, y).double())
            self.directed[cell] += torch.bincount(group[inverse > 0], minlength=GROUPS)
            # x/|x| = (x - c)/|x| + c/|x|, so that one centred copy of the rows serves both sums.
            self.directions[cell] += products[GROUPS:] + inverses[:, None] * rows.centre.double()

    def merge(self, other: Self) -> None:
        """Add the sums."""
        for mine, theirs in zip(self.state().values(), other.state().values(), strict=True):
            mine += theirs

    def state(self) -> State:
        """The five sums, each by cell and group."""
        return {
            "n": self.n,
            "sum": self.sum,
            "squares": self.squares,
            "directed": self.directed,
            "directions": self.directions,
        }

    def load(self, state: State) -> None:
        """Take the sums back."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]
        self.directed, self.directions = state["directed"], state["directions"]

    def recentre(self, centre: Tensor) -> None:
        """Move every sum to the other centre, in float64."""
        shift = self.frame.centre.double() - centre.double()
        self.squares += 2 * (self.sum @ shift) + self.n * (shift @ shift)
        self.sum += self.n[..., None] * shift
