"""What the layers of a survey share on a device: the layout of the current batch, unit rows and deferred work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.devices import make_current
from theodolite.sorting import order_hashes
from theodolite.statistics.cuda.layout import Ints, Layout
from theodolite.statistics.cuda.tables import RowIndex, free_cached_memory
from theodolite.statistics.cuda.transfer import send

if TYPE_CHECKING:
    from theodolite.statistics.cuda.fold import GpuFold


MAX_DEFERRED = 3
"""By default, layers whose deferred work may wait, unless states are held anyway; each keeps a copy of its flagged
rows."""
ORDINARY_CELLS, MASSIVE_CELLS, SINK_CELLS = 0, 2, 4
"""The first cell of ordinary positions, of massive ones, and of those massive at another layer; the next cell has
the first positions of each."""


class Candidates(NamedTuple):
    """The rows of a layout that the sample of any layer may take, by key."""

    rows: tuple[Ints, Ints]  # of other positions, of first positions
    on_device: Tensor  # (candidates,) int64: both
    in_states: Tensor  # (candidates,) int32: their rows in the states


@dataclass(frozen=True)
class PreparedBatch:
    """The layout of a batch for all layers that share its places."""

    layout: Layout
    rows: Tensor  # (runs,) int64, the row of each run in the tables
    size: int  # the rows that the tables must have
    order: Tensor  # (rows,) int64, the row of the places of each row of the layout
    find_candidates: Callable[[Layout], Candidates]
    _in_order: dict[int, PreparedBatch] = field(default_factory=dict, init=False)

    @cached_property
    def candidates(self) -> Candidates:
        """What the samples may take: found when the first layer is added, not while the model waits."""
        return self.find_candidates(self.layout)

    def in_order(self, gap: int) -> PreparedBatch:
        """Return the same for states in the order of the layout, with `gap` rows before the first positions."""
        if gap not in self._in_order:
            self._in_order[gap] = replace(self, layout=self.layout.in_order(gap))
        return self._in_order[gap]

    def reindex(self, rows: Tensor | None) -> PreparedBatch:
        """Return the same for states of which `rows` are the rows of the batch."""
        return self if rows is None else replace(self, layout=self.layout.reindex(rows))


class GpuContext:
    """What the layers of one survey share: the layout of the current batch, the units' rows, and deferred work."""

    def __init__(
        self,
        device: str | torch.device,
        *,
        use_kernels: bool | None = None,
        overlap: bool = False,
        max_deferred: int = MAX_DEFERRED,
    ) -> None:
        self.device = torch.device(device)
        self.use_kernels, self.max_deferred = use_kernels, max_deferred
        self.side_stream = SideStream(self.device) if overlap and self.device.type == "cuda" else None
        self.rows = RowIndex()  # of units that have a vector; the same in every layer
        self.count_rows = RowIndex()  # of all units
        self._rows_of_counts: tuple[Ints, Tensor] | None = None  # of the current batch
        self.folds: list[GpuFold] = []
        self.frequent_codes = np.zeros(0, dtype=np.int64)  # of each slot, -1 if it was not seen
        self._deferred: deque[Callable[[], None]] = deque()
        self._current: tuple[Places, PreparedBatch] | None = None
        self._held_bytes = self._most_held = 0
        self._prepared: dict[int, tuple[Places, PreparedBatch]] = {}  # by id of the places
        self.copy_lock = Lock()

    @property
    def separate_first(self) -> bool:
        """Whether first positions have their own cell; the same in the frames of all layers."""
        return all(fold.frame.separate_first for fold in self.folds)

    def prepare(self, places: Places) -> None:
        """Compute the layout of a batch in advance, in the thread that prepares it: the model does not wait.

        If the device is full, the layout is computed when the batch runs, which may be split then.
        """
        if len(places) and self.folds:
            with self.activate(), suppress(torch.OutOfMemoryError):
                self._prepared[id(places)] = places, self._prepare(places)

    def layout_of(self, batch: Batch) -> PreparedBatch:
        """Return the layout of a batch, computed once for all layers that share its places."""
        if self._current is None or self._current[0] is not batch.places:
            prepared = self._take_prepared(batch.places) or self._prepare(batch.places)
            self._current = batch.places, prepared.reindex(batch.rows)
        return self._current[1]

    def begin(self, batch: Batch) -> None:
        """If this is the first layer of a batch, enlarge the tables of all layers for its units.

        Deferred work is done first, so that no states are held: between tables that grow while states are, memory
        is left in parts that are too small for the next table, and a run of 8B needs a third more.
        """
        if self._current is not None and self._current[0] is batch.places:
            return
        with self.activate():
            size = self.layout_of(batch).size
            growing = [fold for fold in self.folds if fold.lacks_rows(size)]
            if not growing:
                return
            self.finish()
            free_cached_memory(self.device)
            for fold in growing:
                fold.reserve(size)
            free_cached_memory(self.device)

    def _take_prepared(self, places: Places) -> PreparedBatch | None:
        """Return a layout computed in advance, and drop older ones, such as those of a stack without layers."""
        if id(places) not in self._prepared:
            return None
        for older in list(self._prepared):
            _, prepared = self._prepared.pop(older)
            if older == id(places):
                return prepared
        return None

    def _prepare(self, places: Places) -> PreparedBatch:
        frequent, kept = self.folds[0].frame.frequent, self.folds[0].frame.kept  # the same for all layers
        layout = Layout.of(places, self.device, separate_first=self.separate_first, frequent=frequent, kept=kept)
        found = layout.slot >= 0
        self.frequent_codes[layout.slot[found]] = layout.unit[found]
        table_rows = self.table_rows(layout, self.rows)
        return PreparedBatch(layout, table_rows, self.rows.size, layout.index.long(), self._find_candidates)

    def table_rows(self, layout: Layout, rows: RowIndex) -> Tensor:
        """Return the table row of every run, on the device."""
        return send(rows.lookup(layout.units.keys), self.device)

    def count_rows_of(self, layout: Layout, rows: RowIndex) -> Tensor:
        """Return the row of every unit of a layout in an index of counts, on the device."""
        if rows is not self.count_rows:
            return send(rows.lookup(layout.unit_keys), self.device)
        if self._rows_of_counts is None or self._rows_of_counts[0] is not layout.unit_keys:
            self._rows_of_counts = layout.unit_keys, send(rows.lookup(layout.unit_keys), self.device)
        return self._rows_of_counts[1]

    def _find_candidates(self, layout: Layout) -> Candidates:
        """Return the rows that the sample of any layer may take, unless they are massive in that layer."""
        found = [np.zeros(0, dtype=np.int64)] * 2
        for first, rows in layout.parts:
            bound = max(fold.samples[ORDINARY_CELLS + first].bound for fold in self.folds)
            below = np.flatnonzero(layout.key[rows] < bound) + rows.start
            found[first] = below[order_hashes(layout.key[below])]
        on_device = send(np.concatenate(found), self.device)
        return Candidates((found[0], found[1]), on_device, layout.index[on_device])

    def count_held(self, size: int) -> None:
        """Count bytes of states that are held until the sinks of their batch are known; negative if freed."""
        self._held_bytes += size
        self._most_held = max(self._most_held, self._held_bytes)

    @property
    def bytes_to_hold(self) -> int:
        """What the next batch may hold in addition to what is held now: tables must leave it free."""
        return self._most_held - self._held_bytes

    def defer(self, work: Callable[[], None]) -> None:
        """Put work for the CPU at the end of the queue."""
        self._deferred.append(work)

    def catch_up(self, most: int) -> None:
        """Do the oldest deferred work until at most this much is left."""
        while len(self._deferred) > most:
            self._deferred.popleft()()

    def catch_up_one(self) -> None:
        """Do the oldest deferred work, if there is any."""
        self.catch_up(max(len(self._deferred) - 1, 0))

    def finish(self) -> None:
        """Do all deferred work; what is queued later on the device starts after it."""
        with self.activate():
            self.catch_up(0)
            if self.side_stream is not None:
                self.side_stream.join()

    def close(self) -> None:
        """Drop the layers, which refer to this context, and all layouts, so that their device memory is freed.

        After an error the other stream may still use it.
        """
        if self.side_stream is not None:
            with self.activate():
                self.side_stream.join()
        self.folds.clear()
        self._deferred.clear()
        self._prepared.clear()
        self._current = None

    def activate(self) -> AbstractContextManager[object]:
        """Make the device the current one, on which kernels are launched."""
        return make_current(self.device)


class SideStream:
    """A second CUDA stream, whose work runs beside the model's next block."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def run(self, inputs: Sequence[Tensor]) -> Iterator[None]:
        """Queue work on the stream that reads `inputs`; their memory is not reused before it is done."""
        self._stream.wait_stream(torch.cuda.current_stream())
        for tensor in inputs:
            tensor.record_stream(self._stream)
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Make the model's stream wait for all work on this one."""
        torch.cuda.current_stream().wait_stream(self._stream)
