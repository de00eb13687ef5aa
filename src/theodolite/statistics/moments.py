"""Moments: the sums of each unit from which Q, M and V are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_cpu
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, StateInPlace, Statistic
from theodolite.statistics.unit_table import UnitTable, add_tables


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums of a population by unit, sorted by code; `sum` and `squares` are about `centre`."""

    codes: Tensor  # (units,) int64
    n: Tensor  # (units,) int64
    sum: Tensor  # (units, dim) float64
    squares: Tensor  # (units,) float64
    centre: Tensor  # (dim,) float64

    @property
    def readable(self) -> NDArray[np.float64] | Tensor:
        """The sums as formulas expect them: an array if on the CPU, otherwise a tensor. (units, dim)"""
        return self.sum if self.sum.device.type != "cpu" else self.sum.numpy()


class Moments(Statistic):
    """n, sum of x - c and sum of |x - c|^2 of every unit that has a vector, in one table per cell.

    Float64 about the pilot's centre c. Float32 sums of the raw vectors lose V completely if one coordinate is far
    from 0: the tests show that this algorithm fails.
    """

    name: ClassVar[str] = "moments"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [UnitTable(frame.dim) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Add each row to its unit. O(rows x dim)."""
        for cell, part in rows.cells:
            own = rows.with_vector(part)
            self.tables[cell].add_rows(rows.places.unit[own], rows.x[own], rows.centre)

    def merge(self, other: Self) -> None:
        """Add the sums of the other, unit by unit."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add_sums(theirs.codes, theirs.n, theirs.sum, theirs.squares)

    def state(self) -> State:
        """Return four tensors for each cell that is not empty."""
        return {name: to_cpu(part) for name, part in self.state_in_place().items()}

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying sums that are on a device."""
        parts: StateInPlace = {}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                parts |= {
                    f"{cell}.codes": table.codes,
                    f"{cell}.n": table.n,
                    f"{cell}.sum": table.stored_sum,
                    f"{cell}.squares": table.squares,
                }
        return parts

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of a unit table."""
        return UnitTable.expected_bytes(frame.dim, units if frame.kept is None else min(units, frame.kept.vectors))

    def load(self, state: State) -> None:
        """Restore the tables with their rows in the same order."""
        self.tables = [UnitTable(self.frame.dim) for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                table.load(*(state[f"{cell}.{part}"] for part in ("codes", "n", "sum", "squares")))

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre."""
        shift = self.frame.centre.double() - centre.double()
        for table in self.tables:
            table.recentre(shift)

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k], for surveys that number units differently."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int], on_device: Mapping[int, Tensor] | None = None) -> UnitSums:
        """Return the tables of these cells together, sorted by code. Read-only: it may be a table itself.

        With `on_device`, the sums of each cell on a device (see `copy_to_device`), `sum` is computed there.
        """
        chosen = list(cells)
        sums = None if on_device is None else [on_device[cell] for cell in chosen]
        sums_by_unit = add_tables([self.tables[cell] for cell in chosen], self.frame.dim, sums)
        return UnitSums(*sums_by_unit, self.frame.centre.double())

    def copy_to_device(self, device: torch.device, present: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Return the sums of each cell on a device, for `population`; those in `present` are on a device.

        (units, dim) each
        """
        return {
            cell: present[cell].to(device) if cell in present else table.sum.to(device)
            for cell, table in enumerate(self.tables)
        }
