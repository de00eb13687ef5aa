"""A growing table of sums, one row for every unit seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from theodolite.statistics.away import Away

CHUNK = 1024  # rows promoted to float64 at a time, so that the copy stays in the cache


class UnitTable:
    """n, sum of (x - c) and sum of |x - c|^2 by unit, in float64. Memory: 8 (dim + 3) bytes a unit seen."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.size = 0
        self._row_of = torch.full((0,), -1, dtype=torch.int64)  # code -> row
        self._codes = torch.zeros(0, dtype=torch.int64)
        self._n = torch.zeros(0, dtype=torch.int64)
        self._held: Tensor | Away = torch.zeros(0, dim, dtype=torch.float64)
        self._squares = torch.zeros(0, dtype=torch.float64)

    @property
    def codes(self) -> Tensor:
        """The units' codes in the order in which they were first seen. (units,)"""
        return self._codes[: self.size]

    @property
    def n(self) -> Tensor:
        """Occurrences. (units,)"""
        return self._n[: self.size]

    @property
    def sum(self) -> Tensor:
        """Sum of x - c; brought to the processor if it is still away. (units, dim)"""
        return self._sum[: self.size]

    @property
    def held(self) -> Tensor | Away:
        """The same, left where it is as long as it is away. (units, dim)"""
        held = self._held
        return held if isinstance(held, Away) and held.there is not None else self.sum

    @property
    def squares(self) -> Tensor:
        """Sum of |x - c|^2. (units,)"""
        return self._squares[: self.size]

    def rows_for(self, codes: Tensor) -> Tensor:
        """Return the row of each code, new ones for codes not seen before. (any,) -> (any,)"""
        top = int(codes.max()) + 1 if len(codes) else 0
        if top > len(self._row_of):
            self._row_of = _grown(self._row_of, top, fill=-1)
        unseen = codes[self._row_of[codes] < 0]
        if len(unseen):
            unseen = torch.unique(unseen)  # sorted, so that the order does not depend on how rows were mixed
            self._reserve(self.size + len(unseen))
            fresh = torch.arange(self.size, self.size + len(unseen))
            self._row_of[unseen] = fresh
            self._codes[fresh] = unseen
            self.size += len(unseen)
        return self._row_of[codes]

    def add_rows(self, codes: Tensor, x: Tensor, centre: Tensor) -> None:
        """Sum vectors (rows, dim) into the rows of their codes (rows,), about the centre, in float64."""
        rows = self.rows_for(codes)
        self._n.index_add_(0, rows, torch.ones_like(rows))
        centre = centre.double()
        for start in range(0, len(rows), CHUNK):
            here = rows[start : start + CHUNK]
            y = x[start : start + CHUNK] - centre  # promoted to float64, and a copy of its own
            self._sum.index_add_(0, here, y)
            self._squares.index_add_(0, here, y.square_().sum(dim=1))

    def add_sums(self, codes: Tensor, n: Tensor, total: Tensor, squares: Tensor) -> None:
        """Add another table's sums; every code at most once."""
        rows = self.rows_for(codes)
        self._n.index_add_(0, rows, n)
        self._sum.index_add_(0, rows, total)
        self._squares.index_add_(0, rows, squares)

    def load(self, codes: Tensor, n: Tensor, total: Tensor | Away, squares: Tensor) -> None:
        """Replace everything by these sums, rows in their order; every code once."""
        self.size = len(codes)
        self._codes, self._n, self._held, self._squares = codes, n, total, squares
        self._index()

    def recode(self, codes: Tensor) -> None:
        """Rename code k to codes[k]; two units may not get one name."""
        self._codes = codes[self.codes]
        self._n, self._sum, self._squares = self.n, self.sum, self.squares
        self._index()

    @property
    def _sum(self) -> Tensor:
        if isinstance(held := self._held, Away):
            self._held = held = held.here()
        return held

    @_sum.setter
    def _sum(self, total: Tensor) -> None:
        self._held = total

    def _index(self) -> None:
        self._row_of = torch.full((int(self.codes.max()) + 1 if self.size else 0,), -1, dtype=torch.int64)
        self._row_of[self.codes] = torch.arange(self.size)

    def recentre(self, shift: Tensor) -> None:
        """Move the sums from about c to about c - shift, in float64: x - c' = (x - c) + shift. (dim,)"""
        n = self.n.double()
        self.squares.add_(2 * (self.sum @ shift) + n * (shift @ shift)).clamp_(min=0)
        self.sum.add_(n[:, None] * shift)

    def _reserve(self, size: int) -> None:
        if size > len(self._codes):
            # A quarter more than asked. Fresh zeros cost no memory before they are written.
            capacity = size + size // 4 + 16
            self._codes = _grown(self._codes, capacity)
            self._n = _grown(self._n, capacity)
            self._sum = _grown(self._sum, capacity)
            self._squares = _grown(self._squares, capacity)


def together(
    tables: Sequence[UnitTable], dim: int, sums: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return codes, n, sum and squares of the tables added up, ordered by code: to be read, not written.

    One copy of the sums is made, and none where a single table holds them in order. `sums` are those of the tables
    where they have been copied to a device: then the sum is made there.
    """
    sums = [table.sum for table in tables] if sums is None else sums
    held = [(table, total) for table, total in zip(tables, sums, strict=True) if table.size]
    codes = torch.unique(torch.cat([torch.zeros(0, dtype=torch.int64), *(table.codes for table, _ in held)]))
    if len(held) == 1 and torch.equal(codes, held[0][0].codes):
        table, total = held[0]
        return codes, table.n, total, table.squares
    n = torch.zeros(len(codes), dtype=torch.int64)
    squares = torch.zeros(len(codes), dtype=torch.float64)
    total = _placed(codes, *held[0]) if held else torch.zeros(0, dim, dtype=torch.float64)
    for number, (table, more) in enumerate(held):
        rows = torch.searchsorted(codes, table.codes)
        n.index_add_(0, rows, table.n)
        squares.index_add_(0, rows, table.squares)
        if number:
            total.index_add_(0, rows.to(total.device), more)
    return codes, n, total, squares


def _placed(codes: Tensor, table: UnitTable, sums: Tensor) -> Tensor:
    """Return the table's sums in the rows of their codes, 0 elsewhere. -> (codes, dim)"""
    shape, rows = (len(codes), sums.shape[1]), torch.searchsorted(codes, table.codes).to(sums.device)
    total = sums.new_empty(shape) if len(rows) == len(codes) else sums.new_zeros(shape)
    total[rows] = sums
    return total


def _grown(tensor: Tensor, length: int, fill: int = 0) -> Tensor:
    shape = (length, *tensor.shape[1:])
    larger = torch.zeros(shape, dtype=tensor.dtype) if fill == 0 else torch.full(shape, fill, dtype=tensor.dtype)
    larger[: len(tensor)] = tensor
    return larger
