"""The layout of a batch on a device: its rows sorted by unit and group, cut into pieces of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import GROUPS, Places
from theodolite.sorting import find_stable_order
from theodolite.statistics.cuda.transfer import send_together
from theodolite.statistics.rare_units import KeptUnits
from theodolite.statistics.unit_groups import find_slots

Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
_FREQUENT = ("number", "keys", "slot", "pieces")
_SENT = ("start", "length", "run", "slot", "long_run", "long_slot", "long_pieces")


@dataclass(frozen=True)
class Pieces:
    """Runs of rows with equal keys, cut into pieces of bounded length, so that a frequent unit is several tasks.

    A run of one piece is added to its table directly. The pieces of a longer run have a slot each, and are added
    in order, so that the sums do not depend on the order in which the pieces are computed.
    """

    keys: Ints  # (runs,) on the CPU, like `lengths`
    lengths: Ints  # (runs,)
    slots: int
    start: Tensor  # (pieces,) int32, like all the following
    length: Tensor  # (pieces,)
    run: Tensor  # (pieces,)
    slot: Tensor  # (pieces,) -1 if the run has one piece
    long_run: Tensor  # (long runs,)
    long_slot: Tensor  # (long runs,) its first slot
    long_pieces: Tensor  # (long runs,)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.keys)

    @classmethod
    def of(cls, keys: AnyInts, longest: int, parts: AnyInts | None = None) -> Pieces:
        """Cut rows, of which those with equal keys are adjacent, into pieces of at most `longest` rows.

        The rows of a piece are also of one part of `parts`, -1 if a row is in none. All pieces of a run with parts
        have a slot, so that the sum of each part can be computed from them. (rows,) each
        """
        new_run = _begins(keys)
        new_part = new_run if parts is None else new_run | _begins(parts)
        run_starts, starts = np.flatnonzero(new_run), np.flatnonzero(new_part)
        lengths, run_of_part = np.diff(starts, append=len(keys)), np.cumsum(new_run[starts]) - 1
        pieces = -(-lengths // longest)
        part = np.repeat(np.arange(len(starts)), pieces)
        number = np.arange(len(part)) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # of the piece in its part
        length, run = np.minimum(lengths[part] - number * longest, longest), run_of_part[part]
        by_run = np.bincount(run, minlength=len(run_starts))
        is_long = by_run > 1
        if parts is not None:
            is_long[run_of_part[parts[starts] >= 0]] = True
        slot = np.where(is_long[run], np.cumsum(is_long[run]) - 1, -1)
        long_pieces = by_run[is_long]
        fields = (
            starts[part] + number * longest,
            length,
            run,
            slot,
            is_long.nonzero()[0],
            np.cumsum(long_pieces) - long_pieces,
            long_pieces,
        )
        tensors = (torch.from_numpy(field.astype(np.int32)) for field in fields)
        run_lengths = np.diff(run_starts, append=len(keys))
        return cls(keys[run_starts].astype(np.int64), run_lengths, int(long_pieces.sum()), *tensors)

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that the device needs."""
        return tuple(getattr(self, name) for name in _SENT)

    def with_tensors(self, tensors: Sequence[Tensor]) -> Pieces:
        """Return the same with copies of the tensors on another device."""
        start, length, run, slot, long_run, long_slot, long_pieces = tensors
        return replace(
            self,
            start=start,
            length=length,
            run=run,
            slot=slot,
            long_run=long_run,
            long_slot=long_slot,
            long_pieces=long_pieces,
        )


UNIT_ROWS, GROUP_ROWS = 64, 128
"""The longest piece of a unit, of which there are many, and of a group, of which there are forty."""


@dataclass(frozen=True)
class FrequentRuns:
    """The rows of each frequent unit and group of documents, which are adjacent, and their pieces."""

    rows: Ints  # (rows,) on the CPU, like `lengths`: rows of the layout
    lengths: Ints  # (runs,)
    number: Tensor  # (runs,) int32, like the following: 0, 1, ...
    keys: Tensor  # (runs,) first position or not, slot of the unit, group
    slot: Tensor  # (runs,) of the first piece
    pieces: Tensor  # (runs,)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.lengths)

    @classmethod
    def of(cls, slot: AnyInts, first: Bools, group: AnyInts, slots: int, units: Pieces) -> FrequentRuns:
        """Find the runs of rows whose slot is not -1. (rows,) each"""
        rows = np.flatnonzero(slot >= 0)
        keys = (first[rows] * slots + slot[rows]) * GROUPS + group[rows]
        starts = np.flatnonzero(_begins(keys))
        lengths = np.diff(starts, append=len(keys))
        piece = np.searchsorted(units.start.numpy(), rows[starts])
        fields = (np.arange(len(starts)), keys[starts], units.slot.numpy()[piece], -(-lengths // UNIT_ROWS))
        return cls(rows, lengths, *(torch.from_numpy(field.astype(np.int32)) for field in fields))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that the device needs."""
        return tuple(getattr(self, name) for name in _FREQUENT)


@dataclass(frozen=True)
class Layout:
    """The rows of a batch sorted by (first, unit), with first positions last; of frequent units also by group.

    Computed on the CPU before the model runs.
    """

    unit: Ints  # (rows,) this and the next four are on the CPU, in the order of the layout
    key: Ints
    context: Ints
    group: AnyInts  # int8, 20 first + group
    slot: AnyInts  # int32, of a frequent unit in the frame, -1 for all others
    rare: Bools  # whether the unit has no vector
    unit_keys: Ints  # (units,) also on the CPU: 2 unit + first, of all units, with or without a vector
    slots: int  # the number of frequent units
    others: int  # the number of rows that are not first positions
    units: Pieces  # by (unit, first); the key is 2 (unit + 1) + first, and the units without a vector are unit -1
    groups: Pieces  # by `group`, in the order of `by_group`
    frequent: FrequentRuns
    by_group: Tensor  # (rows,) int32 on the device, like the next: rows of the layout sorted by group
    bounds: Tensor  # (41,) int32: the first piece of each of the forty groups
    index: Tensor  # (rows,) int32: the row of the states of each row of the layout
    by_group_index: Tensor  # (rows,) int32: the same in the order of the groups
    unit_lengths: Tensor  # (units,) int32: the rows of each, which are adjacent
    unit_groups: Tensor  # (20 units,) int32: the rows of each in each group
    # If the states are in the order of the layout: their rows between other and first positions.
    gap: int | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def device(self) -> torch.device:
        """The device of the layout."""
        return self.index.device

    @property
    def parts(self) -> tuple[tuple[int, slice], ...]:
        """The rows that are not first positions (0) and those that are (1), if there are any."""
        both = ((0, slice(0, self.others)), (1, slice(self.others, len(self))))
        return tuple((first, rows) for first, rows in both if rows.stop > rows.start)

    def reindex(self, rows: Tensor | None) -> Layout:
        """Return the same for states of which `rows` are the rows of the batch."""
        if rows is None:
            return self
        index = rows[self.index].int()
        return replace(self, index=index, by_group_index=index[self.by_group])

    @classmethod
    def of(
        cls,
        places: Places,
        device: torch.device,
        *,
        separate_first: bool,
        frequent: Sequence[int] = (),
        kept: KeptUnits | None = None,
    ) -> Layout:
        """Sort the rows of these places; `frequent` and `kept` are those of the frame.

        The rows of all units without a vector are one run: they have one row of the table.
        """
        unit, key, context = places.unit.numpy(), places.key.numpy(), places.context.numpy()
        first = places.first.numpy() if separate_first else np.zeros(len(unit), dtype=np.bool_)
        rare = np.zeros(len(unit), dtype=np.bool_)
        if kept is not None:
            rare = ~kept.has_vector(places.unit, places.unit_hash).numpy()
        slot = find_slots(frequent, places.unit, places.unit_hash).numpy().astype(np.int32)
        group = places.group.numpy().astype(np.int8)
        group += first * np.int8(GROUPS)
        order = np.arange(len(unit))
        if (moved := _order(unit, first, rare)) is not None:
            order = moved
            unit, key, context = (field.take(order) for field in (unit, key, context))
            group, slot, rare = group.take(order), slot.take(order), rare.take(order)
        if len(rows := np.flatnonzero(slot >= 0)):
            named = unit[rows] * 2 + (group[rows] >= GROUPS)
            by_group = np.arange(len(unit))
            keys = np.cumsum(_begins(named)) * (2 * GROUPS) + group[rows]  # below 2^16: sorted by counting
            by_group[rows] = rows[find_stable_order(keys)]
            # Rows only change places with others of the same unit: `unit`, `slot` and `rare` remain as they are.
            order, key, context = (field.take(by_group) for field in (order, key, context))
            group = group.take(by_group)
        return cls._cut(unit, key, context, group, slot, rare, order, device, len(frequent))

    def take(self, rows: Ints) -> Layout:
        """Return the layout of some of the rows, in ascending order, for states in the order of this layout."""
        unit, key, context = self.unit[rows], self.key[rows], self.context[rows]
        more = self.group[rows], self.slot[rows], self.rare[rows]
        return Layout._cut(unit, key, context, *more, rows, self.device, self.slots)

    def in_order(self, gap: int = 0) -> Layout:
        """Return the same for states in the order of the layout, with `gap` rows before the first positions."""
        index = torch.arange(len(self), dtype=torch.int32, device=self.device)
        index[self.others :] += gap
        return replace(self, index=index, by_group_index=index[self.by_group], gap=gap)

    @classmethod
    def _cut(
        cls,
        unit: Ints,
        key: Ints,
        context: Ints,
        group: AnyInts,
        slot: AnyInts,
        rare: Bools,
        index: Ints,
        device: torch.device,
        slots: int,
    ) -> Layout:
        by_group = np.argsort(group, kind="stable")  # numpy sorts int8 by counting
        first = group >= GROUPS
        within = group - first * np.int8(GROUPS)
        parts = np.where(slot >= 0, slot * GROUPS + within, -1)
        keys = 2 * unit
        keys += first
        units = Pieces.of(np.where(rare, first, keys + 2), UNIT_ROWS, parts)
        groups = Pieces.of(group[by_group], GROUP_ROWS)
        of_piece = groups.keys[groups.run.numpy()]
        bounds = np.searchsorted(of_piece, np.arange(2 * GROUPS + 1))
        frequent = FrequentRuns.of(slot, first, within, slots, units)
        starts = np.flatnonzero(_begins(keys))
        unit_lengths = np.diff(starts, append=len(keys))
        unit_and_group = np.repeat(np.arange(len(starts)) * GROUPS, unit_lengths)
        unit_and_group += within
        unit_groups = np.bincount(unit_and_group, minlength=len(starts) * GROUPS)
        index = index.astype(np.int32)
        arrays = (by_group, bounds, index, index[by_group], unit_lengths, unit_groups)
        more = (torch.from_numpy(one.astype(np.int32, copy=False)) for one in arrays)
        count = len(units.tensors())
        sent = send_together([*units.tensors(), *groups.tensors(), *more, *frequent.tensors()], device)
        pieces = units.with_tensors(sent[:count]), groups.with_tensors(sent[count : 2 * count])
        others, own = int(len(first) - first.sum()), sent[2 * count :]
        runs = FrequentRuns(frequent.rows, frequent.lengths, *own[-len(_FREQUENT) :])
        return cls(
            unit,
            key,
            context,
            group,
            slot,
            rare,
            keys[starts],
            slots,
            others,
            *pieces,
            runs,
            *own[: -len(_FREQUENT)],
        )


def _begins(values: AnyInts) -> Bools:
    """Return whether each value differs from the one before it; the first one does. (rows,) -> (rows,)"""
    found = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def _order(unit: Ints, first: Bools, rare: Bools) -> Ints | None:
    """Return the order by (first, rare, unit); None if rows are in it, as from most sources. (rows,) -> (rows,)"""
    key = first * 2**41
    key += rare * 2**40
    key += unit
    return None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")
