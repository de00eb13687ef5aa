"""Sample: a few thousand vectors kept whole, chosen by hash, for what no sum can tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic

FIELDS = ("key", "unit", "context", "vector")


class Reservoir:
    """The rows of smallest key among all offered: any order of offers, any split, gives the same rows."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.rows["key"]) if self.rows else 0

    def offer(self, **rows: Tensor) -> None:
        """Take in rows, all fields of one length; keep the smallest keys."""
        if not self.size:
            return
        if len(self) >= self.size:
            near = (rows["key"] < self.rows["key"].max()).nonzero().squeeze(1)
            if not len(near):
                return
            rows = {name: values[near] for name, values in rows.items()}
        both = torch.cat([self.rows["key"], rows["key"]]) if self.rows else rows["key"]
        kept = torch.argsort(both, stable=True)[: self.size]
        incoming = kept[kept >= len(self)] - len(self)
        staying = kept[kept < len(self)]
        if len(self) < self.size:  # still filling: there is room for copies
            mine = self.rows or {name: values[:0] for name, values in rows.items()}
            self.rows = {name: torch.cat([mine[name][staying], rows[name][incoming]]) for name in rows}
        else:  # full: overwrite only the rows that leave
            leaving = torch.ones(len(self), dtype=torch.bool)
            leaving[staying] = False
            for name, values in self.rows.items():
                values[leaving] = rows[name][incoming]

    def sorted(self) -> dict[str, Tensor]:
        """Return the rows in the order of their keys; to be read, not written: they may be the rows themselves."""
        if not self.rows or bool((self.rows["key"][1:] >= self.rows["key"][:-1]).all()):
            return dict(self.rows)
        order = torch.argsort(self.rows["key"])
        return {name: values[order] for name, values in self.rows.items()}


class Sample(Statistic):
    """By cell: the `sample_size` vectors of smallest key, with their unit and context.

    The key is a hash of where the vector stands, so the sample is uniform and does not depend on sharding.
    Memory: 4 dim sample_size bytes a cell.
    """

    name: ClassVar[str] = "sample"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells = [Reservoir(frame.sample_size) for _ in CELLS]

    def update(self, rows: Rows) -> None:
        """Offer each row to its cell. O(rows), and O(dim) for each that enters."""
        for cell, part in rows.cells:
            places = rows.places
            self.cells[cell].offer(
                key=places.key[part],
                unit=places.unit[part],
                context=places.context[part],
                vector=rows.x[part],
            )

    def merge(self, other: Self) -> None:
        """Keep the smallest keys of both."""
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            if len(theirs):
                mine.offer(**theirs.rows)

    def state(self) -> State:
        """Key, unit, context and vector for each cell that holds anything, sorted by key."""
        return {
            f"{cell}.{field}": values
            for cell, reservoir in zip(CELLS, self.cells, strict=True)
            for field, values in reservoir.sorted().items()
        }

    def load(self, state: State) -> None:
        """Take the vectors back."""
        for cell, reservoir in zip(CELLS, self.cells, strict=True):
            held = f"{cell}.key" in state
            reservoir.rows = {field: state[f"{cell}.{field}"] for field in FIELDS} if held else {}

    def recode(self, codes: Tensor) -> None:
        """Give every unit another code: code k becomes codes[k]."""
        for reservoir in self.cells:
            if len(reservoir):
                reservoir.rows["unit"] = codes[reservoir.rows["unit"]]

    def population(self, cells: Iterable[int]) -> dict[str, Tensor]:
        """Return the sample of these cells together: again those of smallest key. Empty where nothing was seen.

        To be read, not written: it may be the sample itself.
        """
        held = [self.cells[cell] for cell in cells if len(self.cells[cell])]
        if len(held) == 1:  # as it is, without a copy
            return held[0].sorted()
        union = Reservoir(self.frame.sample_size)
        for reservoir in held:
            union.offer(**reservoir.rows)
        return union.sorted()
