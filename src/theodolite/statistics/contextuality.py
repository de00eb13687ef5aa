"""Contextuality: the sum of unit vectors of each unit, from which its self-similarity is computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.statistics.unit_table import UnitTable, add_tables


class Contextuality(Statistic):
    """By cell and unit: the number of vectors other than 0, and the sum of x/|x|.

    The mean cosine between the occurrences of a unit is (|sum|^2 - n)/(n (n - 1)). Optional, since the table is as
    large as that of the moments. Float64; memory: 8 (dim + 3) bytes per unit and cell seen.
    """

    name: ClassVar[str] = "contextuality"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [UnitTable(frame.dim) for _ in CELLS]
        self._origin = torch.zeros(frame.dim)

    def update(self, rows: Rows) -> None:
        """Add x/|x| to its unit; zero vectors have no direction and are excluded. O(rows x dim)."""
        for cell, part in rows.cells:
            weights = rows.inverse_norms[part]
            directed = weights > 0
            codes, x = rows.places.unit[part], rows.x[part] * weights[:, None]
            if not directed.all():
                codes, x = codes[directed], x[directed]
            self.tables[cell].add_rows(codes, x, self._origin)

    def merge(self, other: Self) -> None:
        """Add the sums of the other, unit by unit."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add_sums(theirs.codes, theirs.n, theirs.sum, theirs.squares)

    def state(self) -> State:
        """Return codes, n and sum of each cell that is not empty."""
        state: State = {}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                state |= {f"{cell}.codes": table.codes, f"{cell}.n": table.n, f"{cell}.directions": table.sum}
        return state

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of a unit table."""
        return UnitTable.expected_bytes(frame.dim, units)

    def load(self, state: State) -> None:
        """Restore the tables with their rows in the same order."""
        self.tables = [UnitTable(self.frame.dim) for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                codes, n, total = (state[f"{cell}.{part}"] for part in ("codes", "n", "directions"))
                table.load(codes, n, total, n.double())  # the square of a unit vector is 1

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes (units,), n (units,) and sums (units, dim) of these cells together, sorted by code."""
        codes, n, total, _ = add_tables([self.tables[cell] for cell in cells], self.frame.dim)
        return codes, n, total
