"""Scatter: the second moments about the centre, for all spectral measures; of few vectors, the vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.devices import DeviceTensor, read_on, read_where_it_is, to_cpu, to_device
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, StateInPlace, Statistic

BLOCK = 192  # columns multiplied at a time


class Scatter(Statistic):
    """By cell: n, sum of (x - c), and sum of (x - c)(x - c)^T; up to n = dim, the vectors x - c instead of it.

    The product is float32 within a batch and accumulated in float64; the matrix is symmetric, so only blocks on
    and above the diagonal are computed. Vectors are float64. Memory per cell seen: 8 dim min(n, dim) bytes.
    """

    name: ClassVar[str] = "scatter"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.n = torch.zeros(len(CELLS), dtype=torch.int64)
        self.sum = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)
        self.products: dict[int, Tensor | DeviceTensor] = {}
        self.vectors: dict[int, list[Tensor | DeviceTensor]] = {}  # of cells without products, as they arrived

    def update(self, rows: Rows) -> None:
        """Add the rows, or their products: O(rows x dim^2), half of it saved by symmetry."""
        for cell, part in rows.cells:
            y = rows.centred[part]
            self.n[cell] += len(y)
            self.sum[cell] += y.sum(dim=0, dtype=torch.float64)
            self._add(cell, y)

    def merge(self, other: Self) -> None:
        """Add the sums and the vectors."""
        self.n += other.n
        self.sum += other.sum
        for cell in other.vectors:
            self._add(cell, to_cpu(other._joined(cell)))
        for cell, matrix in other.products.items():
            self._matrix(cell).add_(to_cpu(matrix))

    def state(self) -> State:
        """Return n and sum by cell, and of each cell the vectors or the upper blocks of the matrix."""
        return {name: to_cpu(part) for name, part in self.state_in_place().items()}

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying matrices that are on a device."""
        products = {f"{CELLS[cell]}.products": matrix for cell, matrix in sorted(self.products.items())}
        vectors = {f"{CELLS[cell]}.vectors": self._joined(cell) for cell in sorted(self.vectors)}
        return {"n": self.n, "sum": self.sum, **products, **vectors}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the matrices, without n and sum; fewer vectors than coordinates need less."""
        return 8 * frame.dim**2 * cells

    def load(self, state: State) -> None:
        """Restore the sums; those of older surveys have a matrix whatever n is."""
        self.n, self.sum = state["n"], state["sum"]
        self.products = {
            cell: state[f"{name}.products"] for cell, name in enumerate(CELLS) if f"{name}.products" in state
        }
        self.vectors = {
            cell: [state[f"{name}.vectors"]] for cell, name in enumerate(CELLS) if f"{name}.vectors" in state
        }

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre, in float64."""
        shift = self.frame.centre.double() - centre.double()
        for cell in self.products:
            matrix = self._matrix(cell)
            cross = torch.outer(self.sum[cell], shift)
            matrix += cross + cross.T + self.n[cell] * torch.outer(shift, shift)
        for cell in self.vectors:
            self.vectors[cell] = [to_cpu(self._joined(cell)) + shift]
        self.sum += self.n[:, None] * shift

    def few_vectors(self, cells: Iterable[int], device: str | None = None) -> Tensor | None:
        """Return x - c of all vectors of these cells if there are at most `dim`; None if only sums are known.

        (n, dim) float64, on the CPU or a device
        """
        chosen = list(cells)
        if self.needs_matrix(chosen):
            return None
        place = torch.device(device or "cpu")
        held = [read_on(self._joined(cell), place) for cell in chosen if cell in self.vectors]
        return torch.cat(held) if held else self.sum.new_zeros(0, self.frame.dim, device=place)

    def needs_matrix(self, cells: Sequence[int]) -> bool:
        """Return whether only sums are known of these cells, or they have more vectors than coordinates."""
        chosen = list(cells)
        return bool(self.products.keys() & chosen) or int(self.n[chosen].sum()) > self.frame.dim

    def distinct_vectors(self, cell: int, device: torch.device, most: int) -> tuple[Tensor, Tensor] | None:
        """Return the different vectors x - c of a cell without a matrix, on a device, and how often each occurs.

        None if there are more than `most`. The first positions of a model with a start token are all equal, for
        example. (vectors, dim), (vectors,)
        """
        y = read_on(self._joined(cell), device)
        found: list[Tensor] = []
        counts: list[Tensor] = []
        while len(y):
            if len(found) == most:
                return None
            same = (y == y[0]).all(dim=1)
            found.append(y[0])
            counts.append(same.sum())
            y = y[~same]
        return torch.stack(found), torch.stack(counts)

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
            elif cell in self.vectors:
                self._add_products(total, read_on(self._joined(cell), total.device))
        upper = torch.triu(total)
        mean = to_device(self.sum[chosen].sum(dim=0), total.device) / max(n, 1)
        return n, (upper + torch.triu(upper, 1).T) / max(n, 1) - torch.outer(mean, mean)

    def variances(self, cells: Iterable[int]) -> tuple[Tensor, Tensor]:
        """Return E (x_i - c_i)^2 and the variance of every coordinate of these cells together. (dim,) each"""
        chosen = list(cells)
        n = max(int(self.n[chosen].sum()), 1)
        second = torch.zeros(self.frame.dim, dtype=torch.float64)
        for cell in chosen:
            if cell in self.products:
                second += read_where_it_is(self.products[cell]).diagonal().cpu()
            elif cell in self.vectors:
                second += read_where_it_is(self._joined(cell)).square().sum(dim=0).cpu()
        second /= n
        return second, second - (self.sum[chosen].sum(dim=0) / n).square()

    def _add(self, cell: int, y: Tensor) -> None:
        """Add vectors of a cell, whose n counts them already, in the form that this n requires."""
        if cell not in self.products and self.n[cell] <= self.frame.dim:
            self.vectors.setdefault(cell, []).append(y.to(torch.float64, copy=True))
        else:
            self._add_products(self._matrix(cell), y)

    def _add_products(self, matrix: Tensor, y: Tensor) -> None:
        for start in range(0, self.frame.dim, BLOCK):
            block = slice(start, start + BLOCK)
            matrix[block, start:] += y[:, block].T @ y[:, start:]

    def _matrix(self, cell: int) -> Tensor:
        """Return the matrix of a cell, on the CPU; vectors that are held of it are added first."""
        if cell not in self.products:
            self.products[cell] = torch.zeros(self.frame.dim, self.frame.dim, dtype=torch.float64)
        self.products[cell] = matrix = to_cpu(self.products[cell])
        if cell in self.vectors:
            self._add_products(matrix, to_cpu(self._joined(cell)))
            del self.vectors[cell]
        return matrix

    def _joined(self, cell: int) -> Tensor | DeviceTensor:
        """Return the vectors of a cell as one tensor, which may be on a device. (n, dim)"""
        if len(self.vectors[cell]) > 1:
            self.vectors[cell] = [torch.cat([to_cpu(part) for part in self.vectors[cell]])]
        return self.vectors[cell][0]
