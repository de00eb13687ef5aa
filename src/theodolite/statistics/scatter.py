"""Scatter: the second moments about the centre, one (dim, dim) matrix per cell, for all spectral measures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.devices import DeviceTensor, read_on, to_cpu
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, StateInPlace, Statistic

BLOCK = 192  # columns multiplied at a time


class Scatter(Statistic):
    """By cell: n, sum of (x - c), and sum of (x - c)(x - c)^T.

    The product is float32 within a batch and accumulated in float64; the matrix is symmetric, so only blocks on
    and above the diagonal are computed. Empty cells have no matrix. Memory: 8 dim^2 bytes per cell seen.
    """

    name: ClassVar[str] = "scatter"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(CELLS), dtype=torch.int64)
        self.sum = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)
        self.products: dict[int, Tensor | DeviceTensor] = {}

    def update(self, rows: Rows) -> None:
        """Add the products of the rows. O(rows x dim^2), half of it saved by symmetry."""
        for cell, part in rows.cells:
            y = rows.centred[part]
            self.n[cell] += len(y)
            self.sum[cell] += y.sum(dim=0, dtype=torch.float64)
            matrix = self._matrix(cell)
            for start in range(0, self.frame.dim, BLOCK):
                block = slice(start, start + BLOCK)
                matrix[block, start:] += y[:, block].T @ y[:, start:]

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.n += other.n
        self.sum += other.sum
        for cell, matrix in other.products.items():
            self._matrix(cell).add_(to_cpu(matrix))

    def state(self) -> State:
        """Return n and sum by cell, and the upper blocks of each matrix."""
        return {name: to_cpu(part) for name, part in self.state_in_place().items()}

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying matrices that are on a device."""
        products = {f"{CELLS[cell]}.products": matrix for cell, matrix in sorted(self.products.items())}
        return {"n": self.n, "sum": self.sum, **products}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the matrices, without n and sum."""
        return 8 * frame.dim**2 * cells

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.n, self.sum = state["n"], state["sum"]
        self.products = {
            cell: state[f"{name}.products"] for cell, name in enumerate(CELLS) if f"{name}.products" in state
        }

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre, in float64."""
        shift = self.frame.centre.double() - centre.double()
        for cell in self.products:
            matrix = self._matrix(cell)
            cross = torch.outer(self.sum[cell], shift)
            matrix += cross + cross.T + self.n[cell] * torch.outer(shift, shift)
        self.sum += self.n[:, None] * shift

    def covariance(self, cells: Iterable[int], device: str | None = None) -> tuple[int, Tensor]:
        """Return n and the covariance about the exact mean of these cells together, on a device if one is given.

        (dim, dim) float64
        """
        chosen = list(cells)
        n = int(self.n[chosen].sum())
        total = torch.zeros(self.frame.dim, self.frame.dim, dtype=torch.float64, device=device)
        for cell in chosen:
            if cell in self.products:
                total += read_on(self.products[cell], total.device)
        upper = torch.triu(total)
        mean = self.sum[chosen].sum(dim=0).to(total.device) / max(n, 1)
        return n, (upper + torch.triu(upper, 1).T) / max(n, 1) - torch.outer(mean, mean)

    def variances(self, cells: Iterable[int]) -> tuple[Tensor, Tensor]:
        """Return E (x_i - c_i)^2 and the variance of every coordinate of these cells together. (dim,) each"""
        chosen = list(cells)
        n = max(int(self.n[chosen].sum()), 1)
        second = torch.zeros(self.frame.dim, dtype=torch.float64)
        for cell in chosen:
            if cell in self.products:
                matrix = self.products[cell]
                held = matrix.on_device if isinstance(matrix, DeviceTensor) else None
                second += (to_cpu(matrix) if held is None else held).diagonal().cpu()
        second /= n
        return second, second - (self.sum[chosen].sum(dim=0) / n).square()

    def _matrix(self, cell: int) -> Tensor:
        if cell not in self.products:
            self.products[cell] = torch.zeros(self.frame.dim, self.frame.dim, dtype=torch.float64)
        self.products[cell] = matrix = to_cpu(self.products[cell])
        return matrix
