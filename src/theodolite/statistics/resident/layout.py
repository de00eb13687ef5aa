"""Layout: where the rows of a batch stand, told once for all layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import GROUPS, Places
from theodolite.statistics.resident.pieces import Ints, Pieces
from theodolite.statistics.resident.transfer import sent

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
    index: Tensor | None  # (rows,) int64 on the device: where a row lies among the states; None: where it is
    units: tuple[Pieces, Pieces]  # the others, the first
    groups: Pieces
    by_group: Tensor  # (rows,) int32 on the device: the order of the groups' pieces
    of_row: Tensor  # (rows,) int64 on the device: `group`

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def device(self) -> torch.device:
        """Where the layout is told."""
        return self.of_row.device

    @property
    def parts(self) -> tuple[tuple[int, slice], ...]:
        """Say which rows are first (1) and which are not (0), where there are any."""
        both = ((0, slice(0, self.others)), (1, slice(self.others, len(self))))
        return tuple((first, rows) for first, rows in both if rows.stop > rows.start)

    def among(self, rows: Tensor | None) -> Layout:
        """Return the layout of the same rows where they lie at `rows` among the states."""
        if rows is None:
            return self
        return replace(self, index=rows if self.index is None else rows[self.index])

    @classmethod
    def of(cls, places: Places, device: torch.device, *, apart_first: bool, rows: Tensor | None = None) -> Layout:
        """Lay out the rows of these places; `rows` says where each lies among the states."""
        unit = places.unit.numpy()
        first = places.first.numpy() if apart_first else np.zeros(len(unit), dtype=np.bool_)
        wanted = first * 2**40 + unit
        order = None
        if len(unit) > 1 and not (wanted[1:] >= wanted[:-1]).all():  # sources hand their rows over in order
            order = np.argsort(wanted, kind="stable")
            unit, first = unit[order], first[order]
        fields = (places.key.numpy(), places.context.numpy(), places.group.numpy())
        key, context, group = fields if order is None else (field[order] for field in fields)
        group = group + GROUPS * first
        by_group = np.argsort(group.astype(np.uint8), kind="stable")  # so small, they are sorted by counting
        others = int(len(first) - first.sum())
        index = None if order is None else sent(order, device)
        return cls(
            unit,
            key,
            context,
            group,
            others,
            index,
            (
                Pieces.of(unit[:others], UNIT_ROWS, device),
                Pieces.of(unit[others:], UNIT_ROWS, device, offset=others),
            ),
            Pieces.of(group[by_group], GROUP_ROWS, device),
            sent(by_group.astype(np.int32), device),
            sent(group, device),
        )

    def taken(self, rows: Ints) -> tuple[Layout, Tensor]:
        """Return the layout of some of the rows, in ascending order, and on the device which those are."""
        which = sent(rows, self.device)
        group, unit = self.group[rows], self.unit[rows]
        others = int((group < GROUPS).sum())
        by_group = np.argsort(group.astype(np.uint8), kind="stable")  # so small, they are sorted by counting
        layout = Layout(
            unit,
            self.key[rows],
            self.context[rows],
            group,
            others,
            None,
            (
                Pieces.of(unit[:others], UNIT_ROWS, self.device),
                Pieces.of(unit[others:], UNIT_ROWS, self.device, offset=others),
            ),
            Pieces.of(group[by_group], GROUP_ROWS, self.device),
            sent(by_group.astype(np.int32), self.device),
            sent(group, self.device),
        )
        return layout, which
