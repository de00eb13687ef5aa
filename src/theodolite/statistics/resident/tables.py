"""Tables of sums by unit that live on a device while they fit there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from theodolite.statistics.resident.pieces import Ints
from theodolite.statistics.resident.transfer import sent
from theodolite.statistics.unit_table import UnitTable

RESERVE = 0.15
"""The share of a GPU's memory that tables leave free, for the model's own needs."""


class UnitRows:
    """Which row of the tables each key has, in the order of first appearance. Kept on the processor.

    The key of a unit's other positions is twice its code; that of its first ones is one more.
    """

    def __init__(self) -> None:
        self.size = 0
        self.keys = np.zeros(0, dtype=np.int64)
        self._row_of = np.full(0, -1, dtype=np.int64)

    def of(self, keys: Ints) -> Ints:
        """Return the rows of these keys, each given at most once; new ones for new keys."""
        top = int(keys.max(initial=-1)) + 1
        if top > len(self._row_of):
            self._row_of = np.pad(self._row_of, (0, top - len(self._row_of)), constant_values=-1)
        new = keys[self._row_of[keys] < 0]
        if len(new):
            self._row_of[new] = np.arange(self.size, self.size + len(new))
            self.keys = np.concatenate([self.keys, new])
            self.size += len(new)
        return self._row_of[keys]


class ResidentTable:
    """n, sum of x - c and sum of |x - c|^2 by unit, in float64, on the device or, once it is full, on the host.

    The row of each key is the caller's affair: layers of one survey share it. A row nobody wrote to has n = 0.
    Memory: 8 (dim + 2) bytes a row.
    """

    def __init__(self, dim: int, device: torch.device) -> None:
        self.dim, self.device = dim, device
        self.n = torch.zeros(0, dtype=torch.int64, device=device)
        self.sum = torch.zeros(0, dim, dtype=torch.float64, device=device)
        self.squares = torch.zeros(0, dtype=torch.float64, device=device)
        self.spilled: UnitTable | None = None

    def reserve(self, rows: UnitRows) -> None:
        """Make room for so many rows; where the device has none, move to the host for good."""
        if self.spilled is not None or rows.size <= len(self.n):
            return
        capacity = rows.size + rows.size // 4 + 16
        # While it grows the old table stands beside the new one.
        if not fits(8 * capacity * (self.dim + 2), self.device):
            held = self.held(rows)
            self.spilled = UnitTable(self.dim)
            for first, (codes, *sums) in enumerate(held):
                self.spilled.add_sums(2 * codes + first, *sums)
            self.n, self.sum, self.squares = self.n[:0], self.sum[:0].clone(), self.squares[:0]
            return
        self.n, self.sum, self.squares = (_grown(one, capacity) for one in (self.n, self.sum, self.squares))

    def scratch(self, runs: int) -> ResidentTable:
        """Return an empty table of one row for every run of a batch, whose sums `take_in` moves to the host."""
        table = ResidentTable(self.dim, self.device)
        table.n, table.sum, table.squares = (_grown(one, runs) for one in (table.n, table.sum, table.squares))
        return table

    def take_in(self, keys: Ints, batch: ResidentTable) -> None:
        """Add a batch's sums on the host; waits for them."""
        assert self.spilled is not None
        seen = batch.n.cpu() > 0
        parts = (part.cpu()[seen] for part in (batch.n, batch.sum, batch.squares))
        self.spilled.add_sums(torch.from_numpy(keys)[seen], *parts)

    def held(self, rows: UnitRows) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Return codes, n, sum and squares of the units seen, on the processor: other positions, then first."""
        return [(codes, n, total.cpu(), squares) for codes, n, total, squares in self.lying(rows)]

    def lying(self, rows: UnitRows) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield the same one after the other, copies of the sums where these are."""
        if self.spilled is not None:
            of = self.spilled
            picked = [((of.codes % 2) == first).nonzero().squeeze(1) for first in (0, 1)]
            yield from ((of.codes[at] // 2, of.n[at], of.sum[at], of.squares[at]) for at in picked)
            return
        size = min(rows.size, len(self.n))
        n, squares = self.n[:size].cpu(), self.squares[:size].cpu()
        keys = torch.from_numpy(rows.keys[:size])
        picked = [((n > 0) & (keys % 2 == first)).nonzero().squeeze(1) for first in (0, 1)]
        yield from ((keys[at] // 2, n[at], self.sum[at.to(self.device)], squares[at]) for at in picked)

    def clear(self) -> None:
        """Let all go."""
        self.n, self.sum, self.squares = self.n[:0].clone(), self.sum[:0].clone(), self.squares[:0].clone()
        self.spilled = None

    def load(self, rows: UnitRows, first: int, codes: Tensor, n: Tensor, total: Tensor, squares: Tensor) -> None:
        """Take sums of other or of first positions back; every code once."""
        keys = 2 * codes + first
        here = rows.of(keys.numpy())
        self.reserve(rows)
        if self.spilled is not None:
            self.spilled.add_sums(keys, n, total, squares)
            return
        at = sent(here, self.device)
        for into, values in ((self.n, n), (self.sum, total), (self.squares, squares)):
            into[at] = values.to(self.device)


def fits(count: int, device: torch.device) -> bool:
    """Say whether so many bytes more can be had on the device."""
    if device.type != "cuda":
        return True
    free, total = free_on(device)
    return count + RESERVE * total <= free


def free_on(device: str | torch.device) -> tuple[int, int]:
    """Return how many bytes can be had on a GPU, free ones and those PyTorch keeps unused, and of how many."""
    free, total = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device), total


def _grown(tensor: Tensor, length: int) -> Tensor:
    larger = tensor.new_zeros(length, *tensor.shape[1:])
    larger[: len(tensor)] = tensor
    return larger
