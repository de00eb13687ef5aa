"""The frozen records that cross from sources to statistics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUPS = 20
"""Documents fall by hash into this many groups; the spread between groups gives the error bars."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a batch stand: the same for every layer of one forward pass. All are (positions,).

    `key` orders the sample: a hash in [0, 2^63) of (source, document number, window, position).
    `context` is equal for two rows only if the model saw the same input for both, so that their states can
    differ by rounding alone.
    """

    unit: Tensor  # int64, the unit's code
    group: Tensor  # int64, the document's group, 0 ... GROUPS - 1
    first: Tensor  # bool, position 0 of its window
    key: Tensor  # int64
    context: Tensor  # int64
    window: Tensor  # int64, equal for rows of one window; no window is cut between two batches

    def __len__(self) -> int:
        return int(self.unit.shape[0])

    def take(self, index: Tensor) -> Places:
        """Return the rows of the index, in its order."""
        fields = (self.unit, self.group, self.first, self.key, self.context, self.window)
        return Places(*(field[index] for field in fields))

    def by_unit(self) -> Tensor:
        """Return the order that puts rows of one unit side by side, first positions after the others.

        Statistics want this order; a source that hands its rows over in it saves them a copy.
        """
        return torch.argsort(self.first * _UNIT_LIMIT + self.unit, stable=True)


_UNIT_LIMIT = 2**40  # more unit codes than any vocabulary has, so that one integer sorts (flag, unit)


@dataclass(frozen=True, slots=True)
class Batch:
    """The states of one layer at the positions that count; padding never gets further than here.

    On a GPU a source may hand over the states as they left the block, with `rows` to say which of them count and
    in which order: what reads them there need not wait for a copy.
    """

    layer: int
    states: Tensor  # (positions, dim), any floating type; with `rows`, (any, dim)
    places: Places
    rows: Tensor | None = None  # (positions,) int64, on the device of the states

    def taken(self) -> Tensor:
        """Return the states of the positions that count, in the order of the places. (positions, dim)"""
        return self.states if self.rows is None else self.states.index_select(0, self.rows)
