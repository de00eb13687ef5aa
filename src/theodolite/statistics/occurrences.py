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

CHOOSING = ("unit", "hash", "key")
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
        kept = self._select(**joined)
        if bool((kept >= len(self)).any()):  # otherwise no row enters, and nothing is copied
            vectors = torch.cat([self.rows["vector"], rows["vector"]]) if self.rows else rows["vector"]
            self.rows = {name: values[kept] for name, values in joined.items()} | {"vector": vectors[kept]}

    def _drop_late_units(self, rows: dict[str, Tensor]) -> dict[str, Tensor]:
        """Drop rows of units with a larger hash than all chosen units, if no more units can be chosen."""
        chosen = self.rows["unit"]
        if len(torch.unique(chosen)) < self.units:
            return rows
        near = torch.from_numpy(_unsigned(rows["hash"]) <= _unsigned(self.rows["hash"]).max())
        return {name: values[near] for name, values in rows.items()}

    def _select(self, unit: Tensor, hash: Tensor, key: Tensor) -> Tensor:  # noqa: A002 - the name of a field
        """Return the rows to keep, sorted by the hash of the unit and then by key. (rows,) each -> (kept,)"""
        order = np.lexsort((key.numpy(), unit.numpy(), _unsigned(hash)))
        in_order = unit.numpy()[order]
        starts = np.append(True, in_order[1:] != in_order[:-1])[: len(order)]
        number = np.cumsum(starts) - 1
        place = np.arange(len(order)) - np.flatnonzero(starts)[number]  # the number of the row within its unit
        return torch.from_numpy(order[(number < self.units) & (place < self.each)])


def _unsigned(hashes: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return hashes.numpy().view(np.uint64)


def hash_units(unit: Tensor, unit_hash: Tensor | None = None) -> Tensor:
    """Return the hash that chooses units: of the code, or of the unit itself where codes depend on the order."""
    hashes = mix(SALT, (unit if unit_hash is None else unit_hash).numpy())
    return torch.from_numpy(hashes.view(np.int64))


class Occurrences(Statistic):
    """By cell: up to 32 vectors of each of up to 512 units, those of smallest hash (the frame has the numbers).

    Units that occur once are chosen like all others, since the frequency of a unit is not known in advance. Words
    and other units that are numbered as they occur are hashed themselves, so the choice does not depend on how a
    corpus is split. Memory: at most 64 dim kB per cell.
    """

    name: ClassVar[str] = "occurrences"
    in_estimate: ClassVar[bool] = False  # bounded by the frame, whatever is surveyed

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells = [UnitSample(*frame.occurrences) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Offer each row to its cell. O(rows), and O(dim) for each that enters."""
        for cell, part in rows.cells:
            unit, key, hashed = rows.places.unit[part], rows.places.key[part], rows.places.unit_hash
            chosen_by = hash_units(unit, None if hashed is None else hashed[part])
            self.cells[cell].offer(unit=unit, hash=chosen_by, key=key, vector=rows.x[part])

    def merge(self, other: Self) -> None:
        """Keep the smallest hashes and keys of both."""
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            if len(theirs):
                mine.offer(**theirs.rows)

    def state(self) -> State:
        """Return unit, hash, key and vector of each cell that is not empty."""
        return {
            f"{cell}.{field}": values
            for cell, sample in zip(CELLS, self.cells, strict=True)
            for field, values in sample.rows.items()
        }

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of full samples of float32 vectors."""
        chosen, each = frame.occurrences
        return min(units, chosen) * each * (4 * frame.dim + 24) * cells

    def load(self, state: State) -> None:
        """Restore the vectors."""
        for cell, sample in zip(CELLS, self.cells, strict=True):
            filled = f"{cell}.key" in state
            sample.rows = {}
            if filled:
                hashes = state.get(f"{cell}.hash", hash_units(state[f"{cell}.unit"]))  # older states have none
                others = {field: state[f"{cell}.{field}"] for field in FIELDS if field != "hash"}
                sample.rows = {"hash": hashes} | others

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
