"""Moments: what Q, M and V are made of, for every unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.statistics.away import here
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import Parts, State, Statistic
from theodolite.statistics.unit_table import UnitTable, together


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums of a population by unit, ordered by code; `sum` and `squares` are about `centre`."""

    codes: Tensor  # (units,) int64
    n: Tensor  # (units,) int64
    sum: Tensor  # (units, dim) float64
    squares: Tensor  # (units,) float64
    centre: Tensor  # (dim,) float64

    @property
    def readable(self) -> NDArray[np.float64] | Tensor:
        """The sums as formulas take them: an array in memory, a tensor on a device. (units, dim)"""
        return self.sum if self.sum.device.type != "cpu" else self.sum.numpy()


class Moments(Statistic):
    """n, sum of x - c and sum of |x - c|^2 of every unit, in a table for each cell.

    Float64 about the pilot's centre c. Float32 sums of the raw vectors lose V altogether where one coordinate
    is far from 0: the tests keep that algorithm and watch it fail.
    """

    name: ClassVar[str] = "moments"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [UnitTable(frame.dim) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Add each row to its unit. O(rows x dim)."""
        for cell, part in rows.cells:
            self.tables[cell].add_rows(rows.places.unit[part], rows.x[part], rows.centre)

    def merge(self, other: Self) -> None:
        """Add the other's sums, unit by unit."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add_sums(theirs.codes, theirs.n, theirs.sum, theirs.squares)

    def state(self) -> State:
        """Four tensors for each cell that holds anything."""
        return {name: here(part) for name, part in self.parts().items()}

    def parts(self) -> Parts:
        """The same; sums that are away stay so."""
        parts: Parts = {}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                parts |= {
                    f"{cell}.codes": table.codes,
                    f"{cell}.n": table.n,
                    f"{cell}.sum": table.held,
                    f"{cell}.squares": table.squares,
                }
        return parts

    def load(self, state: State) -> None:
        """Rebuild the tables with their rows in the order in which they were."""
        self.tables = [UnitTable(self.frame.dim) for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                table.load(*(state[f"{cell}.{part}"] for part in ("codes", "n", "sum", "squares")))

    def recentre(self, centre: Tensor) -> None:
        """Move every sum to the other centre."""
        shift = self.frame.centre.double() - centre.double()
        for table in self.tables:
            table.recentre(shift)

    def recode(self, codes: Tensor) -> None:
        """Give every unit another code: code k becomes codes[k]. For surveys that number units differently."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int], there: Mapping[int, Tensor] | None = None) -> UnitSums:
        """Add the tables of these cells; units ordered by code. To be read, not written: it may be a table itself.

        `there` holds the cells' sums where they have been moved to a device (`moved`): then `sum` is made there.
        """
        chosen = list(cells)
        sums = None if there is None else [there[cell] for cell in chosen]
        found = together([self.tables[cell] for cell in chosen], self.frame.dim, sums)
        return UnitSums(*found, self.frame.centre.double())

    def moved(self, device: torch.device, left: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Return each cell's sums on a device, what `population` can take: copies, but those that were left there.

        (units, dim) each
        """
        return {
            cell: left[cell] if cell in left else table.sum.to(device) for cell, table in enumerate(self.tables)
        }
