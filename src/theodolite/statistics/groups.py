"""Groups: sums for 20 groups of documents, whose spread gives standard errors."""

from __future__ import annotations

import math
import mmap
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic

LARGE = 2**20  # bytes


class Groups(Statistic):
    """By cell and document group: n, sum of x - c, sum of |x - c|^2, vectors other than 0, sum of x/|x|.

    Two products of a (20, rows) matrix with the batch, float32 within a batch and float64 between batches.
    Memory: 320 dim bytes per cell.
    """

    name: ClassVar[str] = "groups"
    in_estimate: ClassVar[bool] = False  # a few vectors per group

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        shape = (len(CELLS), GROUPS)
        self.n = torch.zeros(shape, dtype=torch.int64)
        self.squares = torch.zeros(shape, dtype=torch.float64)
        self.directed = torch.zeros(shape, dtype=torch.int64)
        self.sum, self.directions = (_lazy_zeros((*shape, frame.dim)) for _ in range(2))

    def update(self, rows: Rows) -> None:
        """Add the rows to the groups of their documents. O(rows x dim x 40)."""
        for cell, part in rows.cells:
            group, x, y = rows.places.group[part], rows.x[part], rows.centred[part]
            inverse = rows.inverse_norms[part]
            self.n[cell] += torch.bincount(group, minlength=GROUPS)
            self.sum[cell] += _sum_by_group(group, torch.ones_like(inverse), y)
            self.squares[cell].index_add_(0, group, torch.linalg.vecdot(y, y).double())
            self.directed[cell] += torch.bincount(group[inverse > 0], minlength=GROUPS)
            # From x itself: (x - c)/|x| + c/|x| would save a product, but lose all digits of a short x.
            self.directions[cell] += _sum_by_group(group, inverse, x)

    def merge(self, other: Self) -> None:
        """Add the sums."""
        for mine, theirs in zip(self.state().values(), other.state().values(), strict=True):
            mine += theirs

    def state(self) -> State:
        """Return the five sums by cell and group."""
        return {
            "n": self.n,
            "sum": self.sum,
            "squares": self.squares,
            "directed": self.directed,
            "directions": self.directions,
        }

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the five sums."""
        return len(CELLS) * GROUPS * (24 + 16 * frame.dim)

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.n, self.sum, self.squares = state["n"], state["sum"], state["squares"]
        self.directed, self.directions = state["directed"], state["directions"]

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre, in float64."""
        shift = self.frame.centre.double() - centre.double()
        self.squares += 2 * (self.sum @ shift) + self.n * (shift @ shift)
        self.sum += self.n[..., None] * shift


def _lazy_zeros(shape: tuple[int, ...]) -> Tensor:
    """Return zeros in float64; megabytes of them cost nothing before they are written.

    PyTorch and NumPy may take memory that was used before, and clear it.
    """
    size = 8 * math.prod(shape)
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):  # which Windows does not have
        return torch.zeros(shape, dtype=torch.float64)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=torch.float64).view(shape)


def _sum_by_group(group: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    """Return the weighted sum of each group. (rows,), (rows,), (rows, dim) -> (groups, dim) float64"""
    matrix = vectors.new_zeros(GROUPS, len(group)).scatter_(0, group[None], weights.to(vectors.dtype)[None])
    return (matrix @ vectors).double()
