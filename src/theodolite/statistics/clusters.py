"""Clusters: the occurrences of a unit in one window, which are more alike than those of different windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.statistics.unit_table import CHUNK, UnitTable, add_tables


class Clusters(Statistic):
    """By cell and unit: the sums over windows of n_w^2 and of |sum of x in the window|^2.

    With n and the sum of all occurrences they give the mean of x.y over pairs of different windows. Float64 about
    the origin, so that another centre changes nothing. Occurrences in different cells count as different windows.
    Memory: 24 bytes per unit and cell seen.
    """

    name: ClassVar[str] = "clusters"
    whole_windows: ClassVar[bool] = True

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [UnitTable(0) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Add the windows of the batch. O(rows x dim)."""
        for cell, part in rows.cells:
            self._add(cell, rows.places.unit[part], rows.places.window[part], rows.x[part])

    def _add(self, cell: int, unit: Tensor, window: Tensor, x: Tensor) -> None:
        order = torch.argsort(window, stable=True)
        order = order[torch.argsort(unit[order], stable=True)]
        unit, window = unit[order], window[order]
        begins = torch.ones(len(unit), dtype=torch.bool)
        begins[1:] = (unit[1:] != unit[:-1]) | (window[1:] != window[:-1])
        starts = torch.cat([begins.nonzero().squeeze(1), torch.tensor([len(unit)])])
        sizes, squares = starts.diff(), torch.empty(len(starts) - 1, dtype=torch.float64)
        first = 0
        while first < len(sizes):  # some clusters at a time, so that their float64 copies are small
            last = max(int(torch.searchsorted(starts, starts[first] + CHUNK, right=True)) - 1, first + 1)
            chosen = order[starts[first] : starts[last]]
            of = torch.repeat_interleave(torch.arange(last - first), sizes[first:last])
            sums = torch.zeros(last - first, x.shape[1], dtype=torch.float64).index_add_(0, of, x[chosen].double())
            squares[first:last] = torch.linalg.vecdot(sums, sums)
            first = last
        self.tables[cell].add_sums(unit[starts[:-1]], sizes.square(), torch.empty(len(sizes), 0).double(), squares)

    def merge(self, other: Self) -> None:
        """Add the sums of the other, unit by unit."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add_sums(theirs.codes, theirs.n, theirs.sum, theirs.squares)

    def state(self) -> State:
        """Return codes, pairs and squares of each cell that is not empty."""
        state: State = {}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                state |= {f"{cell}.codes": table.codes, f"{cell}.pairs": table.n, f"{cell}.squares": table.squares}
        return state

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of a table without vectors."""
        return UnitTable.expected_bytes(0, units)

    def load(self, state: State) -> None:
        """Restore the tables with their rows in the same order."""
        self.tables = [UnitTable(0) for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                codes, pairs, squares = (state[f"{cell}.{part}"] for part in ("codes", "pairs", "squares"))
                table.load(codes, pairs, torch.empty(len(codes), 0, dtype=torch.float64), squares)

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes, sum of n_w^2 and sum of |s_w|^2 of these cells together, sorted by code. (units,) each"""
        codes, pairs, _, squares = add_tables([self.tables[cell] for cell in cells], 0)
        return codes, pairs, squares
