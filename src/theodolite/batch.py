"""The frozen records that cross from sources to statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.sorting import find_stable_order

GROUPS = 20
"""Documents fall by hash into this many groups; the spread between groups gives the error bars."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a batch stand: the same for every layer of one forward pass. All are (positions,).

    `key` orders the sample: a hash in [0, 2^63) of (source, document number, window, position).
    `unit_hash` is a hash of the unit itself where codes depend on the order in which units occur, as for words.
    `context` is equal for two rows only if the model saw the same input for both, so that their states can
    differ by rounding alone.
    """

    unit: Tensor  # int64, the unit's code
    group: Tensor  # int64, the document's group, 0 ... GROUPS - 1
    first: Tensor  # bool, position 0 of its window
    key: Tensor  # int64
    context: Tensor  # int64
    window: Tensor  # int64, equal for rows of one window; no window is cut between two batches
    unit_hash: Tensor | None = None  # int64; None: the code is the same on every machine
    by: Tensor | None = None  # int64, the group of the document by a field of the corpus; None: no field is given
    position: Tensor | None = None  # int64, the position in the window; None: the rows have no order

    def __len__(self) -> int:
        return int(self.unit.shape[0])

    def take(self, index: Tensor) -> Places:
        """Return the rows of the index, in its order."""
        fields = (self.unit, self.group, self.first, self.key, self.context, self.window)
        chosen = index.numpy()  # numpy takes rows in a third of the time
        optional = (
            None if field is None else _take_rows(field, chosen)
            for field in (self.unit_hash, self.by, self.position)
        )
        return Places(*(_take_rows(field, chosen) for field in fields), *optional)

    def by_unit(self) -> Tensor:
        """Return the order that puts rows of one unit side by side, first positions after the others.

        Statistics require this order; a source whose rows already have it saves a copy.
        """
        unit, first = self.unit.numpy(), self.first.numpy()
        parts = (np.flatnonzero(~first), np.flatnonzero(first))
        return torch.from_numpy(np.concatenate([part[find_stable_order(unit[part])] for part in parts]))


def _take_rows(field: Tensor, chosen: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(field.numpy()[chosen])


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
    kind: int = 0  # which of the kinds of units of its source, if there are several
    attention: Mapping[str, Tensor] | None = None  # sums over the logits of the block, if measured

    def taken(self) -> Tensor:
        """Return the states of the positions that count, in the order of the places. (positions, dim)"""
        return self.states if self.rows is None else self.states.index_select(0, self.rows)
