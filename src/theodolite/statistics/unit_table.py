"""A growing table of sums with one row per unit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from theodolite.devices import DeviceTensor, to_device

CHUNK = 1024  # rows converted to float64 at a time, so that the copy stays in the cache
FEW_MISSING = 16  # rows that a table may lack to be copied in pieces, which takes a third of the time on a GPU


class UnitTable:
    """n, sum of (x - c) and sum of |x - c|^2 by unit, in float64. Memory: 8 (dim + 3) bytes per unit seen."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.size = 0
        self._row_of = torch.full((0,), -1, dtype=torch.int64)  # code -> row
        self._codes = torch.zeros(0, dtype=torch.int64)
        self._n = torch.zeros(0, dtype=torch.int64)
        self._stored_sum: Tensor | DeviceTensor = torch.zeros(0, dim, dtype=torch.float64)
        self._squares = torch.zeros(0, dtype=torch.float64)

    @staticmethod
    def expected_bytes(dim: int, units: int) -> int:
        """Return the size of a table with this number of units."""
        return 8 * units * (dim + 3)

    @property
    def codes(self) -> Tensor:
        """The codes of the units, in order of first appearance. (units,)"""
        return self._codes[: self.size]

    @property
    def n(self) -> Tensor:
        """Occurrences. (units,)"""
        return self._n[: self.size]

    @property
    def sum(self) -> Tensor:
        """Sum of x - c, copied to the CPU if it is still on a device. (units, dim)"""
        return self._sum[: self.size]

    @property
    def stored_sum(self) -> Tensor | DeviceTensor:
        """The same, without copying it from a device. (units, dim)"""
        stored = self._stored_sum
        return stored if isinstance(stored, DeviceTensor) and stored.on_device is not None else self.sum

    @property
    def squares(self) -> Tensor:
        """Sum of |x - c|^2. (units,)"""
        return self._squares[: self.size]

    def rows_for(self, codes: Tensor) -> Tensor:
        """Return the row of each code; new codes get new rows. (any,) -> (any,)"""
        top = int(codes.max()) + 1 if len(codes) else 0
        if top > len(self._row_of):
            self._row_of = _grow(self._row_of, top, fill=-1)
        unseen = codes[self._row_of[codes] < 0]
        if len(unseen):
            unseen = torch.unique(unseen)  # sorted, so that the order does not depend on that of the rows
            self._reserve(self.size + len(unseen))
            new_rows = torch.arange(self.size, self.size + len(unseen))
            self._row_of[unseen] = new_rows
            self._codes[new_rows] = unseen
            self.size += len(unseen)
        return self._row_of[codes]

    def add_rows(self, codes: Tensor, x: Tensor, centre: Tensor) -> None:
        """Add vectors (rows, dim) to the rows of their codes (rows,), about the centre, in float64."""
        rows = self.rows_for(codes)
        self._n.index_add_(0, rows, torch.ones_like(rows))
        centre = centre.double()
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            y = x[start : start + CHUNK] - centre  # in float64, and a copy
            self._sum.index_add_(0, chunk, y)
            self._squares.index_add_(0, chunk, y.square_().sum(dim=1))

    def add_sums(self, codes: Tensor, n: Tensor, total: Tensor, squares: Tensor) -> None:
        """Add the sums of another table; codes are distinct."""
        rows = self.rows_for(codes)
        self._n.index_add_(0, rows, n)
        self._sum.index_add_(0, rows, total)
        self._squares.index_add_(0, rows, squares)

    def load(self, codes: Tensor, n: Tensor, total: Tensor | DeviceTensor, squares: Tensor) -> None:
        """Replace everything by these sums, with rows in this order; codes are distinct."""
        self.size = len(codes)
        self._codes, self._n, self._stored_sum, self._squares = codes, n, total, squares
        self._index()

    def recode(self, codes: Tensor) -> None:
        """Change code k to codes[k]; the new codes must be distinct."""
        self._codes = codes[self.codes]
        self._n, self._sum, self._squares = self.n, self.sum, self.squares
        self._index()

    @property
    def _sum(self) -> Tensor:
        if isinstance(stored := self._stored_sum, DeviceTensor):
            self._stored_sum = stored = stored.cpu()
        return stored

    @_sum.setter
    def _sum(self, total: Tensor) -> None:
        self._stored_sum = total

    def _index(self) -> None:
        self._row_of = torch.full((int(self.codes.max()) + 1 if self.size else 0,), -1, dtype=torch.int64)
        self._row_of[self.codes] = torch.arange(self.size)

    def recentre(self, shift: Tensor) -> None:
        """Change the centre from c to c - shift, in float64: x - c' = (x - c) + shift. (dim,)"""
        n = self.n.double()
        self.squares.add_(2 * (self.sum @ shift) + n * (shift @ shift)).clamp_(min=0)
        self.sum.add_(n[:, None] * shift)

    def _reserve(self, size: int) -> None:
        if size > len(self._codes):
            # A quarter more than needed. New zeros cost no memory before they are written.
            capacity = size + size // 4 + 16
            self._codes = _grow(self._codes, capacity)
            self._n = _grow(self._n, capacity)
            self._sum = _grow(self._sum, capacity)
            self._squares = _grow(self._squares, capacity)


class SparseTable(UnitTable):
    """The same with codes that may be far apart: rows are found by a search, not by an entry per possible code."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self._index()

    def rows_for(self, codes: Tensor) -> Tensor:
        """Return the row of each code; new codes get new rows. (any,) -> (any,)"""
        unseen = torch.unique(codes[~torch.isin(codes, self.codes)])
        if len(unseen):
            self._reserve(self.size + len(unseen))
            self._codes[self.size : self.size + len(unseen)] = unseen
            self.size += len(unseen)
            self._index()
        return self._rows[torch.searchsorted(self._sorted, codes)]

    def select(self, rows: Tensor) -> None:
        """Keep only these rows, and the space of the others for new ones."""
        for part in (self._codes, self._n, self._sum, self._squares):
            kept = part[rows]
            part[: len(rows)] = kept
            part[len(rows) : self.size] = 0
        self.size = len(rows)
        self._index()

    def _index(self) -> None:
        self._sorted, self._rows = self.codes.sort()


def add_tables(
    tables: Sequence[UnitTable], dim: int, sums: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return codes, n, sum and squares of all tables together, sorted by code. Read-only: may be a table's.

    Makes one copy of the sums, and none if a single table has them in order. `sums` are copies of the tables' sums
    on a device, if there are any: then the addition is done there.
    """
    sums = [table.sum for table in tables] if sums is None else sums
    filled = [(table, total) for table, total in zip(tables, sums, strict=True) if table.size]
    codes = torch.unique(torch.cat([torch.zeros(0, dtype=torch.int64), *(table.codes for table, _ in filled)]))
    if len(filled) == 1 and torch.equal(codes, filled[0][0].codes):
        table, total = filled[0]
        return codes, table.n, total, table.squares
    n = torch.zeros(len(codes), dtype=torch.int64)
    squares = torch.zeros(len(codes), dtype=torch.float64)
    total = _expand(codes, *filled[0]) if filled else torch.zeros(0, dim, dtype=torch.float64)
    for number, (table, addend) in enumerate(filled):
        rows = torch.searchsorted(codes, table.codes)
        n.index_add_(0, rows, table.n)
        squares.index_add_(0, rows, table.squares)
        if number:
            total.index_add_(0, to_device(rows, total.device), addend)
    return codes, n, total, squares


def _expand(codes: Tensor, table: UnitTable, sums: Tensor) -> Tensor:
    """Return the table's sums in the rows of these codes, 0 for codes it does not have. -> (codes, dim)"""
    rows = torch.searchsorted(codes, table.codes)
    missing = len(codes) - len(rows)
    if missing <= FEW_MISSING and bool((rows.diff() > 0).all()):
        present = torch.zeros(len(codes), dtype=torch.bool).index_fill_(0, rows, True)
        at = ((~present).nonzero().squeeze(1) - torch.arange(missing)).tolist()  # in the table
        parts = sums.tensor_split(at)
        none = sums.new_zeros(1, sums.shape[1])
        return torch.cat([parts[0], *(each for part in parts[1:] for each in (none, part))])
    shape = (len(codes), sums.shape[1])
    total = sums.new_empty(shape) if not missing else sums.new_zeros(shape)
    return total.index_copy_(0, to_device(rows, sums.device), sums)


def _grow(tensor: Tensor, length: int, fill: int = 0) -> Tensor:
    shape = (length, *tensor.shape[1:])
    larger = torch.zeros(shape, dtype=tensor.dtype) if fill == 0 else torch.full(shape, fill, dtype=tensor.dtype)
    larger[: len(tensor)] = tensor
    return larger
