"""Occurrences: a few vectors of each of some units, chosen by hash, for what needs the vectors of one unit."""

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
SALT = 0x6F63637572  # keeps the choice of units independent of every other hash of their codes


class Shelf:
    """The first `each` rows by key of each of the first `units` units by hash, among all offered.

    A unit that is among the first of everything is among the first of any part, so parts lose nothing.
    """

    def __init__(self, units: int, each: int) -> None:
        self.units, self.each = units, each
        self.rows: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.rows["key"]) if self.rows else 0

    def offer(self, **rows: Tensor) -> None:
        """Take in rows, all fields of one length."""
        if self.rows:
            rows = self._near(rows)
        joined = {name: torch.cat([self.rows[name], rows[name]]) if self.rows else rows[name] for name in CHOOSING}
        kept = self._first(joined["unit"], joined["key"])
        if bool((kept >= len(self)).any()):  # else nothing enters, and nothing need be copied
            vectors = torch.cat([self.rows["vector"], rows["vector"]]) if self.rows else rows["vector"]
            self.rows = {name: values[kept] for name, values in joined.items()} | {"vector": vectors[kept]}

    def _near(self, rows: dict[str, Tensor]) -> dict[str, Tensor]:
        """Leave out rows whose unit comes after all units held, where no more units are taken."""
        held = self.rows["unit"]
        if len(torch.unique(held)) < self.units:
            return rows
        near = torch.from_numpy(_hashes(rows["unit"]) <= _hashes(held).max())
        return {name: values[near] for name, values in rows.items()}

    def _first(self, units: Tensor, keys: Tensor) -> Tensor:
        """Return the rows to keep, ordered by the unit's hash and then by key. (rows,), (rows,) -> (kept,)"""
        order = np.lexsort((keys.numpy(), units.numpy(), _hashes(units)))
        in_order = units.numpy()[order]
        begins = np.append(True, in_order[1:] != in_order[:-1])[: len(order)]
        unit = np.cumsum(begins) - 1
        place = np.arange(len(order)) - np.flatnonzero(begins)[unit]  # of the row among its unit's
        return torch.from_numpy(order[(unit < self.units) & (place < self.each)])


def _hashes(units: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return mix(SALT, units.numpy())


class Occurrences(Statistic):
    """By cell: up to 32 vectors of each of up to 512 units, those of smallest hash (the frame says how many).

    Units that occur once are chosen like all others, since nobody knows beforehand how often a unit will occur.
    Words are hashed by the order in which they were met, so merged surveys of words may hold another choice of
    units than one made whole. Memory: at most 64 dim kB a cell.
    """

    name: ClassVar[str] = "occurrences"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells = [Shelf(*frame.occurrences) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Offer each row to its cell. O(rows), and O(dim) for each that enters."""
        for cell, part in rows.cells:
            self.cells[cell].offer(unit=rows.places.unit[part], key=rows.places.key[part], vector=rows.x[part])

    def merge(self, other: Self) -> None:
        """Keep the first of both."""
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            if len(theirs):
                mine.offer(**theirs.rows)

    def state(self) -> State:
        """Unit, key and vector for each cell that holds anything."""
        return {
            f"{cell}.{field}": values
            for cell, shelf in zip(CELLS, self.cells, strict=True)
            for field, values in shelf.rows.items()
        }

    def load(self, state: State) -> None:
        """Take the vectors back."""
        for cell, shelf in zip(CELLS, self.cells, strict=True):
            held = f"{cell}.key" in state
            shelf.rows = {field: state[f"{cell}.{field}"] for field in FIELDS} if held else {}

    def recode(self, codes: Tensor) -> None:
        """Give every unit another code: code k becomes codes[k]."""
        for shelf in self.cells:
            if len(shelf):
                shelf.rows["unit"] = codes[shelf.rows["unit"]]

    def population(self, cells: Iterable[int]) -> dict[str, Tensor]:
        """Return the vectors of these cells together, unit by unit; empty where nothing was seen."""
        union = Shelf(*self.frame.occurrences)
        for cell in cells:
            if len(self.cells[cell]):
                union.offer(**self.cells[cell].rows)
        return union.rows
