"""Tables of sums by unit on a device; they move to the CPU when the device is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.devices import to_device
from theodolite.statistics.cuda.layout import Ints, Layout
from theodolite.statistics.cuda.transfer import send
from theodolite.statistics.unit_table import UnitTable

RESERVED_SHARE = 0.15
"""The share of a GPU's memory that tables leave free for the model."""


class RowIndex:
    """The table row of each key, in the order of first appearance. On the CPU.

    The key of a unit is twice its code plus 2, plus one for its first positions; keys 0 and 1 are those of all
    units without a vector together. Several threads may use it: batches are prepared in advance, and layers are
    copied side by side.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.size = 0
        self.keys = np.zeros(0, dtype=np.int64)
        self._row_of = np.full(0, -1, dtype=np.int64)
        self._sorted: tuple[Tensor, Tensor] = (torch.zeros(0, dtype=torch.int64),) * 2

    def lookup(self, keys: Ints) -> Ints:
        """Return the rows of these keys, which must be distinct; new keys get new rows."""
        with self._lock:
            top = int(keys.max(initial=-1)) + 1
            if top > len(self._row_of):
                self._row_of = np.pad(self._row_of, (0, top - len(self._row_of)), constant_values=-1)
            new = keys[self._row_of[keys] < 0]
            if len(new):
                self._row_of[new] = np.arange(self.size, self.size + len(new))
                self.keys = np.concatenate([self.keys, new])
                self.size += len(new)
            return self._row_of[keys]

    def sort(self, size: int) -> tuple[Tensor, Tensor]:
        """Return the first `size` rows sorted by unit: other positions, then first. Once for all layers."""
        with self._lock:
            if sum(map(len, self._sorted)) != size:
                keys = self.keys[:size]
                order = keys.argsort()
                odd = keys[order] % 2 == 1
                self._sorted = torch.from_numpy(order[~odd]), torch.from_numpy(order[odd])
            return self._sorted


class GpuSums:
    """n, sum of x - c and sum of |x - c|^2 by row, in float64. An unused row has n = 0."""

    def __init__(self, dim: int, device: torch.device) -> None:
        self.dim, self.device = dim, device
        self.n = torch.zeros(0, dtype=torch.int64, device=device)
        self.sum = torch.zeros(0, dim, dtype=torch.float64, device=device)
        self.squares = torch.zeros(0, dtype=torch.float64, device=device)

    def grow(self, length: int) -> None:
        """Add rows up to this number."""
        self.n, self.sum, self.squares = (_grown(one, length) for one in (self.n, self.sum, self.squares))


class FoundRows(NamedTuple):
    """Rows of a table that are not empty."""

    at: Tensor  # (rows,) on the device of the table
    codes: Tensor  # (rows,) like the following on the CPU
    n: Tensor
    squares: Tensor


class GpuUnitTable(GpuSums):
    """The sums of each unit, on the device or, once that is full, on the CPU.

    The caller provides the row of each key, since the layers of a survey share it. Memory: 8 (dim + 2) bytes per
    row.
    """

    def __init__(self, dim: int, device: torch.device) -> None:
        super().__init__(dim, device)
        self.spilled: UnitTable | None = None

    def lacks(self, size: int) -> bool:
        """Return whether the table has to grow for this many rows."""
        return self.spilled is None and size > len(self.n)

    def reserve(self, rows: RowIndex, spare: int = 0, size: int | None = None) -> None:
        """Grow to the size of the index, or to `size`; if the device is full, move to the CPU permanently.

        `spare` bytes must stay free.
        """
        size = rows.size if size is None else size
        if not self.lacks(size):
            return
        capacity = size + size // 4 + 16
        # While it grows, both the old and the new table are in memory.
        if not fits_on_device(8 * capacity * (self.dim + 2) + spare, self.device):
            sums_by_part = self.to_cpu(rows)
            self.spilled = UnitTable(self.dim)
            for first, (codes, *sums) in enumerate(sums_by_part):
                self.spilled.add_sums(2 * (codes + 1) + first, *sums)
            self.n, self.sum, self.squares = self.n[:0], self.sum[:0].clone(), self.squares[:0]
            return
        self.grow(capacity)

    def scratch(self, runs: int) -> GpuUnitTable:
        """Return an empty table with one row per run of a batch, whose sums `add_to_host` then adds on the CPU."""
        table = GpuUnitTable(self.dim, self.device)
        table.grow(runs)
        return table

    def add_to_host(self, keys: Ints, batch: GpuUnitTable) -> None:
        """Wait for the sums of a batch, and add them on the CPU."""
        assert self.spilled is not None
        seen = batch.n.cpu() > 0
        parts = (part.cpu()[seen] for part in (batch.n, batch.sum, batch.squares))
        self.spilled.add_sums(torch.from_numpy(keys)[seen], *parts)

    def to_cpu(self, rows: RowIndex) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Return codes, n, sum and squares of all units seen, on the CPU: other positions, then first.

        The code -1 has the sums of all units without a vector.
        """
        return [(codes, n, total.cpu(), squares) for codes, n, total, squares in self.read(rows)]

    def read(
        self, rows: RowIndex, found: Sequence[FoundRows] | None = None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield the same one after the other; the sums are copies on the device of the table.

        `found` are the rows of `find`, if it has been called before.
        """
        total = self.sum if self.spilled is None else self.spilled.sum
        for at, codes, n, squares in self.find(rows) if found is None else found:
            yield codes, n, total.index_select(0, at), squares

    def find(self, rows: RowIndex) -> list[FoundRows]:
        """Return the rows of all units seen, sorted by unit: other positions, then first."""
        if self.spilled is not None:
            table, device = self.spilled, torch.device("cpu")
            keys, n, squares = table.codes, table.n, table.squares
            order = keys.argsort()
            by_unit = order[keys[order] % 2 == 0], order[keys[order] % 2 == 1]
        else:
            size, device = min(rows.size, len(self.n)), self.device
            keys, n, squares = torch.from_numpy(rows.keys[:size]), self.n[:size].cpu(), self.squares[:size].cpu()
            by_unit = rows.sort(size)
        picked = (at[n[at] > 0] for at in by_unit)
        return [FoundRows(to_device(at, device), keys[at] // 2 - 1, n[at], squares[at]) for at in picked]

    def clear(self) -> None:
        """Free all memory."""
        self.n, self.sum, self.squares = self.n[:0].clone(), self.sum[:0].clone(), self.squares[:0].clone()
        self.spilled = None

    def load(self, rows: RowIndex, first: int, codes: Tensor, n: Tensor, total: Tensor, squares: Tensor) -> None:
        """Load the sums of other or of first positions; codes are distinct."""
        keys = 2 * (codes + 1) + first
        row_numbers = rows.lookup(keys.numpy())
        self.reserve(rows)
        if self.spilled is not None:
            self.spilled.add_sums(keys, n, total, squares)
            return
        at = send(row_numbers, self.device)
        for into, values in ((self.n, n), (self.sum, total), (self.squares, squares)):
            into[at] = values.to(self.device)


class GpuCounts:
    """Rows by unit and group of documents, of all units, with or without a vector, on the device.

    With `lengths`, also the sum of |x|^2 by unit. The index, which layers may share, has the row of each key
    2 unit + first. Memory: 80 bytes per row, or 88.
    """

    def __init__(self, index: RowIndex, device: torch.device, *, lengths: bool) -> None:
        self._index = index
        self._n = torch.zeros(0, GROUPS, dtype=torch.int32, device=device)
        self._lengths = torch.zeros(0, dtype=torch.float64, device=device) if lengths else None

    def _reserve(self) -> None:
        size = self._index.size
        if size > len(self._n):
            self._n = _grown(self._n, size + size // 4 + 16)
            if self._lengths is not None:
                self._lengths = _grown(self._lengths, len(self._n))

    def add(self, rows: Tensor, layout: Layout, norms: Tensor, flags: Tensor) -> None:
        """Add all rows of a batch, and the lengths of those without a flag; `rows` are its units in the index.

        The flagged rows are subtracted when the CPU knows them: they are few, and the sum of all others is the
        same in every layer.
        """
        self._reserve()
        self._n.index_add_(0, rows, layout.unit_groups.view(-1, GROUPS))
        if self._lengths is not None:
            squares = torch.where(flags == 0, norms.square(), 0.0)
            by_unit = torch.segment_reduce(squares, "sum", lengths=layout.unit_lengths.long(), unsafe=True)
            self._lengths.index_add_(0, rows, by_unit)  # the index has no duplicates: the order is fixed

    def subtract(self, layout: Layout, flagged: Ints) -> None:
        """Subtract some rows of a batch that was added."""
        keys, number = np.unique(2 * layout.unit[flagged] + (flagged >= layout.others), return_inverse=True)
        at = send(self._index.lookup(keys)[number] * GROUPS + layout.group[flagged] % GROUPS, self._n.device)
        self._n.view(-1).index_add_(0, at, torch.ones_like(at, dtype=torch.int32), alpha=-1)

    def to_cpu(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return codes, sorted, counts and lengths of all units seen: other positions, then first."""
        size = min(self._index.size, len(self._n))
        n, keys = self._n[:size].cpu(), torch.from_numpy(self._index.keys[:size])
        lengths = torch.zeros(size, dtype=torch.float64) if self._lengths is None else self._lengths[:size].cpu()
        seen = n.any(dim=1)
        picked = (at[seen[at]] for at in self._index.sort(size))
        return [(keys[at] // 2, n[at], lengths[at]) for at in picked]

    def load(self, first: int, codes: Tensor, n: Tensor) -> None:
        """Load the counts of other or of first positions; codes are distinct."""
        rows = self._rows_of(first, codes)  # before `_n`, which it may replace
        self._n[rows] = n.to(rows.device)

    def load_lengths(self, first: int, codes: Tensor, lengths: Tensor) -> None:
        """Load the sums of |x|^2 of other or of first positions; codes are distinct."""
        rows = self._rows_of(first, codes)
        assert self._lengths is not None
        self._lengths[rows] = lengths.to(rows.device)

    def _rows_of(self, first: int, codes: Tensor) -> Tensor:
        rows = self._index.lookup((2 * codes + first).numpy())
        self._reserve()
        return send(rows, self._n.device)


class GpuFrequentTable(GpuSums):
    """Sums of frequent units by group: a row for each pair of (first position, slot) and group.

    Memory: 31 dim kB for 96 units, allocated with the first row.
    """

    def __init__(self, slots: int, dim: int, device: torch.device) -> None:
        super().__init__(dim, device)
        self.rows = slots * GROUPS

    def allocate(self) -> None:
        """Make the rows, if there are none yet."""
        if not len(self.n):
            self.grow(2 * self.rows)

    def read(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield pairs, n, sum and squares of other positions, then of first ones; `sum` is on the device."""
        n, squares = self.n.cpu(), self.squares.cpu()
        for half in (slice(0, self.rows), slice(self.rows, None)):
            pairs = n[half].nonzero().squeeze(1)
            total = self.sum[half][pairs.to(self.device)]
            yield pairs, n[half][pairs], total, squares[half][pairs]

    def load(self, first: int, codes: Tensor, n: Tensor, total: Tensor, squares: Tensor) -> None:
        """Load the sums of other or of first positions; codes are distinct pairs."""
        self.allocate()
        at = (codes + first * self.rows).to(self.device)
        for into, values in ((self.n, n), (self.sum, total), (self.squares, squares)):
            into[at] = values.to(self.device)


def free_cached_memory(device: torch.device) -> None:
    """Return unused memory to the device, if PyTorch has reserved half of it: what is left between tensors."""
    if device.type == "cuda" and 2 * torch.cuda.memory_reserved(device) > free_memory(device)[1]:
        torch.cuda.empty_cache()


def fits_on_device(count: int, device: torch.device) -> bool:
    """Return whether this number of bytes can still be allocated on the device."""
    if device.type != "cuda":
        return True
    free, total = free_memory(device)
    return count + RESERVED_SHARE * total <= free


def free_memory(device: str | torch.device) -> tuple[int, int]:
    """Return the bytes that can be allocated on a GPU, including those that PyTorch caches, and the total."""
    free, total = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device), total


def _grown(tensor: Tensor, length: int) -> Tensor:
    larger = tensor.new_zeros(length, *tensor.shape[1:])
    larger[: len(tensor)] = tensor
    return larger
