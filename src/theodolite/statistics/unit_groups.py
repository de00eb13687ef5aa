"""Unit groups: how often each unit occurs in each group of documents, and sums by group of the frequent units.

Both give the standard errors of V_W and V_B. Twenty tables of sums by unit would be exact, but too large. Counts
of all units, with the sums of the 96 units that are most frequent in the pilot, give errors within 1.3 of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.devices import read_on, to_cpu, to_device
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, StateInPlace, Statistic
from theodolite.statistics.unit_table import UnitTable, add_tables

FREQUENT = 96
"""Units whose sums are kept by group: those that are most frequent in the pilot."""


class GroupCounts:
    """Occurrences by unit and document group, sorted by code. Memory: 88 bytes per unit seen."""

    def __init__(self) -> None:
        self.codes = torch.zeros(0, dtype=torch.int64)
        self.n = torch.zeros(0, GROUPS, dtype=torch.int32)

    def add(self, codes: Tensor, n: Tensor) -> None:
        """Add counts (units, groups) of distinct codes (units,)."""
        if len(codes) and not bool(torch.isin(codes, self.codes).all()):
            known = torch.unique(torch.cat([self.codes, codes]))
            grown = torch.zeros(len(known), GROUPS, dtype=torch.int32)
            grown[torch.searchsorted(known, self.codes)] = self.n
            self.codes, self.n = known, grown
        self.n.index_add_(0, torch.searchsorted(self.codes, codes), n.int())

    def recode(self, codes: Tensor) -> None:
        """Change code k to codes[k]; the new codes must be distinct."""
        self.codes, order = codes[self.codes].sort()
        self.n = self.n[order]


class UnitGroups(Statistic):
    """By cell: occurrences of every unit in each group of documents."""

    name: ClassVar[str] = "unit_groups"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [GroupCounts() for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Count the rows. O(rows)."""
        for cell, part in rows.cells:
            self.tables[cell].add(*count_by_group(rows.places.unit[part], rows.places.group[part]))

    def merge(self, other: Self) -> None:
        """Add the counts."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add(theirs.codes, theirs.n)

    def state(self) -> State:
        """Return codes and counts of each cell that is not empty."""
        filled = [(cell, table) for cell, table in zip(CELLS, self.tables, strict=True) if len(table.codes)]
        return {f"{cell}.{key}": part for cell, table in filled for key, part in vars(table).items()}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the codes and counts."""
        return units * (8 + 4 * GROUPS)

    def load(self, state: State) -> None:
        """Restore the counts."""
        self.tables = [GroupCounts() for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                table.codes, table.n = state[f"{cell}.codes"], state[f"{cell}.n"]

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int]) -> GroupCounts:
        """Return the counts of these cells together. Read-only: it may be a table itself."""
        largest, *others = sorted((self.tables[cell] for cell in cells), key=lambda table: -len(table.codes))
        if not any(len(table.codes) for table in others):
            return largest
        total = GroupCounts()
        total.codes, total.n = largest.codes, largest.n.clone()
        for table in others:
            total.add(table.codes, table.n)
        return total


def count_by_group(unit: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes of the units, and how often each occurs in each group. (rows,) -> (units,), (units, groups)

    >>> count_by_group(torch.tensor([3, 3, 7]), torch.tensor([0, 0, 19]))[1].nonzero().tolist()
    [[0, 0], [1, 19]]
    """
    codes, row = torch.unique(unit, return_inverse=True)
    n = torch.bincount(row * GROUPS + group, minlength=len(codes) * GROUPS)
    return codes, n.view(len(codes), GROUPS).int()


class FrequentUnitSums(NamedTuple):
    """Sums of the frequent units of a population by group of documents, about the frame's centre."""

    codes: Tensor  # (units,)
    n: Tensor  # (units, groups) int64
    sum: Tensor  # (units, groups, dim) float64
    squares: Tensor  # (units, groups) float64


class FrequentUnits(Statistic):
    """By cell: n, sum of x - c and sum of |x - c|^2 by group of documents, for the frequent units of the frame.

    A frequent unit is named by its code or, where codes depend on the order in which units occur, by its hash. Its
    place in the frame is its slot; the pair of a slot and a group has one row. Memory: 15 dim kB per cell.
    """

    name: ClassVar[str] = "frequent_units"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.codes = torch.full((len(frame.frequent),), -1, dtype=torch.int64)
        self.tables = [UnitTable(frame.dim) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Add the rows of frequent units. O(rows x dim)."""
        slot = find_slots(self.frame.frequent, rows.places.unit, rows.places.unit_hash)
        found = slot >= 0
        self.codes[slot[found]] = rows.places.unit[found]
        for cell, part in rows.cells:
            kept = found[part].nonzero().squeeze(1) + part.start
            if len(kept):
                pairs = slot[kept] * GROUPS + rows.places.group[kept]
                self.tables[cell].add_rows(pairs, rows.x[kept], rows.centre)

    def merge(self, other: Self) -> None:
        """Add the sums of units that are frequent in both frames."""
        mine, theirs = self.frame.frequent, other.frame.frequent
        slots = torch.tensor([mine.index(name) if name in mine else -1 for name in theirs], dtype=torch.int64)
        kept = slots >= 0
        self.codes[slots[kept]] = torch.maximum(self.codes[slots[kept]], other.codes[kept])
        for into, table in zip(self.tables, other.tables, strict=True):
            slot = slots[table.codes // GROUPS]
            of = (slot >= 0).nonzero().squeeze(1)
            pairs = slot[of] * GROUPS + table.codes[of] % GROUPS
            into.add_sums(pairs, table.n[of], table.sum[of], table.squares[of])

    def state(self) -> State:
        """Return the codes of the slots, and four tensors for each cell that is not empty."""
        return {name: to_cpu(part) for name, part in self.state_in_place().items()}

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying sums that are on a device."""
        parts: StateInPlace = {"slots": self.codes}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                sums = (table.codes, table.n, table.stored_sum, table.squares)
                parts |= {f"{cell}.{key}": part for key, part in zip(TABLE_FIELDS, sums, strict=True)}
        return parts

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the tables if each unit occurs in each group."""
        return UnitTable.expected_bytes(frame.dim, min(FREQUENT * cells, units) * GROUPS)

    def load(self, state: State) -> None:
        """Restore the tables; older states have none."""
        self.codes = state.get("slots", torch.full((len(self.frame.frequent),), -1, dtype=torch.int64))
        self.tables = [UnitTable(self.frame.dim) for _ in CELLS]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                table.load(*(state[f"{cell}.{key}"] for key in TABLE_FIELDS))

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        seen = self.codes >= 0
        self.codes = torch.where(seen, codes[self.codes.clamp(min=0)], -1) if len(codes) else self.codes

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre."""
        shift = self.frame.centre.double() - centre.double()
        for table in self.tables:
            table.recentre(shift)

    def population(self, cells: Iterable[int], device: torch.device | None = None) -> FrequentUnitSums:
        """Return the sums of these cells together, for the units that were seen; `sum` on a device if given."""
        tables = [self.tables[cell] for cell in cells]
        sums = None if device is None else [read_on(table.stored_sum, device) for table in tables]
        pairs, n, total, squares = add_tables(tables, self.frame.dim, sums)
        seen = torch.unique(pairs // GROUPS)
        places = torch.searchsorted(seen, pairs // GROUPS) * GROUPS + pairs % GROUPS
        shape = (len(seen), GROUPS)
        parts = [n, total, squares]
        if len(places) < len(seen) * GROUPS:  # some units lack some groups
            parts = [
                part.new_zeros(len(seen) * GROUPS, *part.shape[1:]).index_copy_(
                    0, to_device(places, part.device), part
                )
                for part in parts
            ]
        return FrequentUnitSums(self.codes[seen], *(part.view(*shape, *part.shape[1:]) for part in parts))


MOST_CODES = 2**24  # a table of slots by code; larger than any vocabulary


def find_slots(frequent: Sequence[int], unit: Tensor, unit_hash: Tensor | None = None) -> Tensor:
    """Return the slot of the unit of each row, -1 if it is not frequent. (rows,) -> (rows,)

    >>> find_slots([2, 5], torch.tensor([5, 3, 2])).tolist()
    [1, -1, 0]
    """
    names = unit if unit_hash is None else unit_hash
    if not frequent:
        return torch.full_like(names, -1)
    known, slots = torch.tensor(frequent, dtype=torch.int64).sort()
    # The units of a pilot may be of another kind, such as hashes of words, which are never found among codes.
    if unit_hash is None and int(known[0]) >= 0 and int(known[-1]) < MOST_CODES:  # one more for all above
        slot_of = torch.full((int(known[-1]) + 2,), -1)
        slot_of[known] = slots
        return slot_of[unit.clamp(max=len(slot_of) - 1)]
    at = torch.searchsorted(known, names).clamp_(max=len(known) - 1)
    return torch.where(known[at] == names, slots[at], -1)


TABLE_FIELDS = ("codes", "n", "sum", "squares")
