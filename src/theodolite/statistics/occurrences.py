"""Occurrences: sampled vectors of sampled units, chosen by hash, for measures of the vectors of one unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from theodolite.hashing import mix
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic

CHOOSING = ("unit", "key")
FIELDS = (*CHOOSING, "vector")
SALT = 0x6F63637572  # makes the choice of units independent of all other hashes of their codes


class UnitSample:
    """The `each` rows of smallest key of each of the `units` units of smallest hash, among all offered.

    A unit that is chosen from all data is also chosen from any part of it, so merging parts loses nothing.
    """

    def __init__(self, units: int, each: int) -> None:
        self.units, self.each = units, each
        self.rows: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.rows["key"]) if self.rows else 0

    def offer(self, **rows: Tensor) -> None:
        """Offer rows; all fields have the same length."""
        if self.rows:
            rows = self._drop_late_units(rows)
        joined = {name: torch.cat([self.rows[name], rows[name]]) if self.rows else rows[name] for name in CHOOSING}
        kept = self._select(joined["unit"], joined["key"])
        if bool((kept >= len(self)).any()):  # otherwise no row enters, and nothing is copied
            vectors = torch.cat([self.rows["vector"], rows["vector"]]) if self.rows else rows["vector"]
            self.rows = {name: values[kept] for name, values in joined.items()} | {"vector": vectors[kept]}

    def _drop_late_units(self, rows: dict[str, Tensor]) -> dict[str, Tensor]:
        """Drop rows of units with a larger hash than all chosen units, if no more units can be chosen."""
        chosen = self.rows["unit"]
        if len(torch.unique(chosen)) < self.units:
            return rows
        near = torch.from_numpy(_hashes(rows["unit"]) <= _hashes(chosen).max())
        return {name: values[near] for name, values in rows.items()}

    def _select(self, units: Tensor, keys: Tensor) -> Tensor:
        """Return the rows to keep, sorted by the hash of the unit and then by key. (rows,), (rows,) -> (kept,)"""
        order = np.lexsort((keys.numpy(), units.numpy(), _hashes(units)))
        in_order = units.numpy()[order]
        starts = np.append(True, in_order[1:] != in_order[:-1])[: len(order)]
        unit = np.cumsum(starts) - 1
        place = np.arange(len(order)) - np.flatnonzero(starts)[unit]  # the number of the row within its unit
        return torch.from_numpy(order[(unit < self.units) & (place < self.each)])


def _hashes(units: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return mix(SALT, units.numpy())


class Occurrences(Statistic):
    """By cell: up to 32 vectors of each of up to 512 units, those of smallest hash (the frame has the numbers).

    Units that occur once are chosen like all others, since the frequency of a unit is not known in advance. Words
    are hashed by the order in which they first occur, so merged surveys of words may contain other units than a
    single survey. Memory: at most 64 dim kB per cell.
    """

    name: ClassVar[str] = "occurrences"
    in_estimate: ClassVar[bool] = False  # bounded by the frame, whatever is surveyed

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells = [UnitSample(*frame.occurrences) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Offer each row to its cell. O(rows), and O(dim) for each that enters."""
        for cell, part in rows.cells:
            self.cells[cell].offer(unit=rows.places.unit[part], key=rows.places.key[part], vector=rows.x[part])

    def merge(self, other: Self) -> None:
        """Keep the smallest hashes and keys of both."""
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            if len(theirs):
                mine.offer(**theirs.rows)

    def state(self) -> State:
        """Return unit, key and vector of each cell that is not empty."""
        return {
            f"{cell}.{field}": values
            for cell, sample in zip(CELLS, self.cells, strict=True)
            for field, values in sample.rows.items()
        }

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of full samples of float32 vectors."""
        chosen, each = frame.occurrences
        return min(units, chosen) * each * (4 * frame.dim + 16) * cells

    def load(self, state: State) -> None:
        """Restore the vectors."""
        for cell, sample in zip(CELLS, self.cells, strict=True):
            filled = f"{cell}.key" in state
            sample.rows = {field: state[f"{cell}.{field}"] for field in FIELDS} if filled else {}

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for sample in self.cells:
            if len(sample):
                sample.rows["unit"] = codes[sample.rows["unit"]]

    def population(self, cells: Iterable[int]) -> dict[str, Tensor]:
        """Return the vectors of these cells together, unit by unit; an empty dict if there are none."""
        union = UnitSample(*self.frame.occurrences)
        for cell in cells:
            if len(self.cells[cell]):
                union.offer(**self.cells[cell].rows)
        return union.rows
