"""Layout: where the rows of a batch stand, told once for all layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import GROUPS, Places
from theodolite.statistics.resident.pieces import Ints, Pieces
from theodolite.statistics.resident.transfer import sent_together

UNIT_ROWS, GROUP_ROWS = 32, 64
"""Rows of a piece at the most: of units, which are many, and of groups, of which there are forty."""


@dataclass(frozen=True)
class Layout:
    """The rows of a batch ordered by (first, unit), cut at the first of the first positions.

    Made on the processor, which knows all of it before the model runs.
    """

    unit: Ints  # (rows,) all these on the processor, in the layout's order
    key: Ints
    context: Ints
    group: Ints  # 20 first + group
    others: int  # how many rows are no first positions; those come before
    units: Pieces  # of one (unit, first), the key is 2 unit + first
    groups: Pieces  # of one `group`, in the order of `by_group`
    by_group: Tensor  # (rows,) int32 on the device, as the next: which row of the layout comes there
    bounds: Tensor  # (41,) int32: at which piece each of the forty groups begins
    index: Tensor  # (rows,) int32: where a row of the layout lies among the states
    by_group_index: Tensor  # (rows,) int32: the same in the order of the groups

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def device(self) -> torch.device:
        """Where the layout is told."""
        return self.index.device

    @property
    def parts(self) -> tuple[tuple[int, slice], ...]:
        """Say which rows are first (1) and which are not (0), where there are any."""
        both = ((0, slice(0, self.others)), (1, slice(self.others, len(self))))
        return tuple((first, rows) for first, rows in both if rows.stop > rows.start)

    def among(self, rows: Tensor | None) -> Layout:
        """Return the layout of the same rows where they lie at `rows` among the states."""
        if rows is None:
            return self
        index = rows[self.index].int()
        return replace(self, index=index, by_group_index=index[self.by_group])

    @classmethod
    def of(cls, places: Places, device: torch.device, *, apart_first: bool) -> Layout:
        """Lay out the rows of these places."""
        unit = places.unit.numpy()
        first = places.first.numpy() if apart_first else np.zeros(len(unit), dtype=np.bool_)
        wanted = first * 2**40 + unit
        fields = (unit, places.key.numpy(), places.context.numpy(), places.group.numpy() + GROUPS * first)
        order = np.arange(len(unit))
        if len(unit) > 1 and not (wanted[1:] >= wanted[:-1]).all():  # sources hand their rows over in order
            order = np.argsort(wanted, kind="stable")
            fields = tuple(field[order] for field in fields)  # type: ignore[assignment]
        return cls._cut(*fields, order, device)

    def taken(self, rows: Ints) -> Layout:
        """Return the layout of some of the rows, in ascending order, as they lie in a matrix of all of them."""
        unit, key, context, group = (field[rows] for field in (self.unit, self.key, self.context, self.group))
        return Layout._cut(unit, key, context, group, rows, self.device)

    def gathered(self) -> Layout:
        """Return the same layout of rows that have been put in its order."""
        index = torch.arange(len(self), dtype=torch.int32, device=self.device)
        return replace(self, index=index, by_group_index=self.by_group)

    @classmethod
    def _cut(cls, unit: Ints, key: Ints, context: Ints, group: Ints, lie: Ints, device: torch.device) -> Layout:
        by_group = np.argsort(group.astype(np.uint8), kind="stable")  # so small, they are sorted by counting
        first = group >= GROUPS
        units = Pieces.of(2 * unit + first, UNIT_ROWS)
        groups = Pieces.of(group[by_group], GROUP_ROWS)
        of_piece = groups.keys[groups.run.numpy()]
        bounds = np.searchsorted(of_piece, np.arange(2 * GROUPS + 1))
        more = (torch.from_numpy(one.astype(np.int32)) for one in (by_group, bounds, lie, lie[by_group]))
        count = len(units.tensors())
        there = sent_together([*units.tensors(), *groups.tensors(), *more], device)
        pieces = units.at(there[:count]), groups.at(there[count : 2 * count])
        return cls(unit, key, context, group, int(len(first) - first.sum()), *pieces, *there[2 * count :])
