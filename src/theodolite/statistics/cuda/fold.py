"""The statistics of a layer on a device: the sums of `LayerFold`, computed where the states are.

A batch is added as its states leave the block, before the next block may overwrite them. If sinks have their own
cells, the states are copied then, and added when all layers of the batch have run. Rows that are massive or not
finite are known only then: they are flagged and skipped. The CPU reads the flags once later layers, or of held
states the layers of the next batch, have been queued, so that neither the CPU nor the device waits, and then adds
these rows to their own cells. The state has the same format as that of `LayerFold`, so surveys made on a GPU and
on a CPU can be merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from types import ModuleType
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite import devices
from theodolite.batch import GROUPS, Batch
from theodolite.devices import DeviceTensor, copy_to_cpu
from theodolite.statistics.cells import CELLS
from theodolite.statistics.cuda import kernels, reference
from theodolite.statistics.cuda.context import (
    MASSIVE_CELLS,
    ORDINARY_CELLS,
    SINK_CELLS,
    GpuContext,
    PreparedBatch,
)
from theodolite.statistics.cuda.gram import Chunks, GramFormat, GramRows, far_coordinates
from theodolite.statistics.cuda.layout import Ints, Layout
from theodolite.statistics.cuda.reference import (
    MASSIVE,
    NONFINITE,
    ODD,
    SINK,
    GroupSums,
    Measurements,
    norm_limits,
)
from theodolite.statistics.cuda.reservoir import GpuReservoir
from theodolite.statistics.cuda.tables import GpuCounts, GpuFrequentTable, GpuUnitTable, RowIndex
from theodolite.statistics.cuda.transfer import fetch
from theodolite.statistics.directions import Directions
from theodolite.statistics.fold import Kinds, LayerFold, statistics_for
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.moments import Moments
from theodolite.statistics.norms import BINS, Norms
from theodolite.statistics.rare_units import RareUnits
from theodolite.statistics.sample import FIELDS, Sample
from theodolite.statistics.scatter import Scatter
from theodolite.statistics.sinks import HeldBatch
from theodolite.statistics.statistic import State, StateInPlace
from theodolite.statistics.unit_groups import FrequentUnits, UnitGroups

ON_DEVICE: Kinds = (Moments, Directions, Scatter, Norms, Sample, Groups, UnitGroups, FrequentUnits, RareUnits)
"""Statistics computed on the device; every other statistic of a layer is updated on the CPU meanwhile."""
CANDIDATE_FACTOR = 4
"""If there are more candidates than this multiple of the sample size, the device selects among them first."""
UnitSumsTuple = tuple[Tensor, Tensor, Tensor, Tensor]
"""Codes, n, sum and squares by unit."""


class KeptStates(NamedTuple):
    """States kept for the samples until the CPU knows which cell each belongs to."""

    vectors: Tensor
    selected: bool  # up to the sample size per cell, selected on the device; otherwise all candidates


class GpuFold:
    """The sums of one layer on a device. The state has the names of `LayerFold`."""

    def __init__(self, frame: Frame, context: GpuContext) -> None:
        self.frame, self.context = frame, context
        context.folds.append(self)
        device, cells, dim = context.device, len(CELLS), frame.dim
        self._centres: dict[torch.dtype, Tensor] = {}
        self._far = far_coordinates(frame.centre, frame.spread)
        self._formats: dict[torch.dtype, GramFormat] = {}
        self._limits: dict[tuple[torch.dtype, float | None], Tensor] = {}
        # Each layer has its own rows of the rare cells, unlike those of ordinary positions.
        self._rows = {ORDINARY_CELLS: context.rows, MASSIVE_CELLS: RowIndex(), SINK_CELLS: RowIndex()}
        self._tables = {offset: GpuUnitTable(dim, device) for offset in self._rows}
        self.samples = [GpuReservoir(frame.sample_size, device) for _ in CELLS]
        self._products: dict[int, Tensor] = {}
        self._vectors: dict[int, list[Tensor]] = {}  # of cells without products: x - c, NaN for flagged rows
        self._rest_sum = torch.zeros(cells, dim, dtype=torch.float64)  # over all units without a vector
        self._rest_squares = torch.zeros(cells, dtype=torch.float64)
        self._count_rows = {ORDINARY_CELLS: context.count_rows, MASSIVE_CELLS: RowIndex(), SINK_CELLS: RowIndex()}
        self._counts = {
            offset: GpuCounts(rows, device, lengths=frame.kept is not None)
            for offset, rows in self._count_rows.items()
        }
        slots = len(frame.frequent)
        self._frequent = {offset: GpuFrequentTable(slots, dim, device) for offset in self._rows}
        if len(context.frequent_codes) != slots:
            context.frequent_codes = np.full(slots, -1, dtype=np.int64)
        self._sums = GroupSums(
            groups=torch.zeros(cells, GROUPS, 2, dim, dtype=torch.float64, device=device),
            squares=torch.zeros(cells, GROUPS, dtype=torch.float64, device=device),
            cells=torch.zeros(cells, 4, dim, dtype=torch.float64, device=device),
            n=torch.zeros(cells, GROUPS, 2, dtype=torch.int64, device=device),
        )
        self._bins = torch.zeros(cells, BINS, dtype=torch.int64, device=device)
        self._zero = torch.zeros(cells, dtype=torch.int64, device=device)
        self._extremes = torch.full((cells, 2), math.inf, dtype=torch.float64, device=device)
        self._extremes[:, 1] = -math.inf
        self._nonfinite = torch.zeros(cells, dtype=torch.int64)
        pairs = {offset: slice(offset, offset + 2) for offset in self._rows}
        self._sums_of = {offset: GroupSums(*(part[two] for part in self._sums)) for offset, two in pairs.items()}
        norms = (self._bins, self._zero, self._extremes)
        self._norms_of = {offset: tuple(part[two] for part in norms) for offset, two in pairs.items()}
        others = [kind for kind in statistics_for(frame) if kind not in ON_DEVICE]
        self._host = LayerFold(frame, others) if others else None

    @torch.no_grad()
    def update(self, batch: Batch) -> None:
        """Add one batch: ordinary rows now, all others once later layers have been queued."""
        if self._host is not None:
            self._host.update(batch)
        if not len(batch.places):
            return
        with self.context.activate():
            states = batch.states.detach().to(self.context.device)
            self._add(states, self.context.layout_of(batch))
            self.context.catch_up(self.context.max_deferred)

    def catch_up(self, batch: Batch | None = None) -> None:
        """Do the CPU's work for one layer of the previous batch, while the device runs this one."""
        if batch is not None and len(batch.places):
            self.context.begin(batch)
        with self.context.activate():
            self.context.catch_up_one()

    def lacks_rows(self, size: int) -> bool:
        """Return whether the table of ordinary positions has to grow for this many rows."""
        return self._tables[ORDINARY_CELLS].lacks(size)

    def reserve(self, size: int) -> None:
        """Enlarge the table of ordinary positions to this many rows, or move it to the CPU."""
        self._tables[ORDINARY_CELLS].reserve(self.context.rows, self.context.bytes_to_hold, size)

    @torch.no_grad()
    def hold(self, batch: Batch) -> HeldBatch:
        """Copy the states in the order of the layout; ordinary rows are added when the sinks are known."""
        places, device = batch.places, self.context.device
        if not len(places):
            return HeldBatch(places, torch.zeros(0, dtype=torch.bool, device=device), lambda sinks: None)
        with self.context.activate():
            prepared = self.context.layout_of(batch)
            states = batch.states.detach().to(device)
            layout, dim = prepared.layout, self.frame.dim
            chunks = Chunks.of(dim, layout.others, len(layout) - layout.others)
            held = torch.empty(chunks.rows, dim, dtype=states.dtype, device=device)
            limits, centre = self._limits_of(states.dtype, self._massive_above), self._centre(states.dtype)
            measured = self._backend(states).measure(states, layout, limits, centre, held, chunks.gap)
        order, in_order = prepared.order, prepared.in_order(chunks.gap)
        massive = (measured.flags & MASSIVE).bool()
        by_place = torch.empty_like(massive).index_copy_(0, order, massive)

        @torch.no_grad()
        def add(sinks: Tensor) -> None:
            if self._host is not None:
                back = torch.empty_like(order).index_copy_(0, order, in_order.layout.index.long())
                again = Batch(batch.layer, held, places, back, attention=batch.attention)
                self._host.update(again, sinks=sinks.cpu())
            with self.context.activate():
                flags = measured.flags + SINK * sinks.to(device)[order].to(torch.int8)
                self._add(held, in_order, replace(measured, flags=flags))

        self.context.count_held(held.nbytes)
        return HeldBatch(
            places,
            by_place,
            add,
            lambda: self.context.count_held(-held.nbytes),
            marks_sinks=self.frame.marks_sinks,
        )

    @property
    def _massive_above(self) -> float:
        return self.frame.massive_above if self.frame.separate_massive else math.inf

    def _add(self, states: Tensor, prepared: PreparedBatch, measured: Measurements | None = None) -> None:
        """Add the ordinary rows, and defer all others; held states have been measured, and are overwritten."""
        backend, layout, held = self._backend(states), prepared.layout, measured is not None
        self.reserve(prepared.size)
        if measured is None:
            limits = self._limits_of(states.dtype, self._massive_above)
            measured = backend.measure(states, layout, limits, self._centre(states.dtype))
        kept = self._keep_candidates(states, prepared, measured.flags)
        flagged = self._fold(states, layout, prepared.rows, ORDINARY_CELLS, backend, measured, held=held)
        wait_for_flags = cast(Callable[[], NDArray[np.int8]], fetch(measured.flags))
        held_bytes = states.nbytes if held else 0

        def finish() -> None:
            self._finish_batch(flagged, wait_for_flags, prepared, kept, backend)
            self.context.count_held(-held_bytes)

        self.context.defer(finish)

    def _keep_candidates(self, states: Tensor, prepared: PreparedBatch, flags: Tensor) -> KeptStates | None:
        """Copy the states that the samples may take: all candidates or, of many, those of smallest key."""
        size, (candidates, on_device, at) = self.frame.sample_size, prepared.candidates
        counts = [len(rows) for rows in candidates]
        if len(at) <= CANDIDATE_FACTOR * size:
            return KeptStates(states.index_select(0, at), False) if len(at) else None
        ordinary = (flags.index_select(0, on_device) & (NONFINITE | MASSIVE | SINK)) == 0
        selected = at.new_zeros(2, size + 1)  # the last column takes those that are not selected
        for into, places, fit in zip(
            selected, at.split_with_sizes(counts), ordinary.split_with_sizes(counts), strict=True
        ):
            rank = fit.cumsum(0)
            into.scatter_(0, torch.where(fit & (rank <= size), rank - 1, size), places)
        return KeptStates(states.index_select(0, selected[:, :size].flatten()), True)

    def _backend(self, states: Tensor) -> ModuleType:
        use = self.context.use_kernels
        return kernels if (kernels.is_supported(states) if use is None else use) else reference

    def _limits_of(self, dtype: torch.dtype, bound: float | None) -> Tensor:
        """Return the limits that flag rows or, without a bound, those for rows that were flagged before."""
        if (dtype, bound) not in self._limits:
            massive = math.inf if bound is None else bound
            self._limits[dtype, bound] = norm_limits(
                massive, dtype, self.context.device, mark_odd=bound is not None
            )
        return self._limits[dtype, bound]

    def _format(self, dtype: torch.dtype) -> GramFormat:
        if dtype not in self._formats:
            self._formats[dtype] = GramFormat.of(dtype, self.frame.centre, self._far, self.context.device)
        return self._formats[dtype]

    def _centre(self, dtype: torch.dtype) -> Tensor:
        """Return the centre in the dtype of the states if it is exact there, which it is if they define it."""
        if dtype not in self._centres:
            exact = bool((self.frame.centre.to(dtype).double() == self.frame.centre.double()).all())
            self._centres[dtype] = devices.to_device(
                self.frame.centre.to(dtype if exact else torch.float64), self.context.device
            )
        return self._centres[dtype]

    def _fold(
        self,
        states: Tensor,
        layout: Layout,
        rows: Tensor,
        offset: int,
        backend: ModuleType,
        measured: Measurements,
        *,
        held: bool = False,
    ) -> Tensor:
        """Add unflagged rows to the cells `offset` and `offset + 1`; return a copy of the flagged rows.

        Held states are overwritten with the rows to be multiplied, and their sinks may have been flagged later.
        """
        gram_format, centre, table = self._format(states.dtype), self._centre(states.dtype), self._tables[offset]
        if offset != ORDINARY_CELLS:
            table.reserve(self._rows[offset], self.context.bytes_to_hold)
        spilled = table.spilled is not None
        into = table.scratch(layout.units.runs) if spilled else table
        at = torch.arange(layout.units.runs, device=self.context.device) if spilled else rows
        others, first = layout.others, len(layout) - layout.others
        gram_rows = GramRows.allocate(gram_format, others, first, self.context.device, states if held else None)
        sums = self._sums_of[offset]
        n, by_cell = backend.sum_groups(states, layout, measured, centre, sums, again=held)
        backend.add_norms(*self._norms_of[offset], measured.norms, measured.flags, layout.others)
        frequent = self._frequent[offset]
        if layout.frequent.runs:
            frequent.allocate()
        summed, full = self._hold_few(states, layout, measured.flags, offset)
        flagged: Tensor = backend.add_units(
            states, layout, measured.flags, gram_format, centre, into, at, gram_rows, frequent
        )
        if spilled:
            table.add_to_host(layout.units.keys, into)
        self._counts[offset].add(
            self.context.count_rows_of(layout, self._count_rows[offset]),
            layout,
            measured.norms,
            measured.flags,
        )
        stream, vectors = self.context.side_stream, [part for parts in full.values() for part in parts]
        used = (gram_rows.rows, gram_rows.remainders, n, by_cell, *vectors)
        with stream.run(used) if stream is not None else nullcontext():
            for cell, parts in full.items():
                y = torch.cat(parts).double().nan_to_num_(nan=0.0)
                self._matrix(cell).addmm_(y.T, y)
            for chunks, remainders, part, last in gram_rows.rounds(summed):
                partial = backend.products(chunks, remainders)
                matrix = self._matrix(offset + part)
                backend.add_products(matrix, *partial, n[part], by_cell[part], gram_format, last)
        return flagged

    def _hold_few(
        self, states: Tensor, layout: Layout, flags: Tensor, offset: int
    ) -> tuple[list[int], dict[int, list[Tensor]]]:
        """Hold the rows of cells that have had at most `dim` rows, flagged ones included.

        Return which of the two cells, 0 and 1, need products, and the vectors of those that had none before. The
        CPU does not know yet which rows are flagged, so these are held as NaN.
        """
        summed, full = [], {}
        for part, rows in enumerate((slice(0, layout.others), slice(layout.others, len(layout)))):
            cell, count = offset + part, rows.stop - rows.start
            held = sum(map(len, self._vectors.get(cell, ())))
            fits = cell not in self._products and held + count <= self.frame.dim
            if not fits:
                summed.append(part)
            if fits and count:
                x = states.index_select(0, layout.index[rows])
                y = (x if x.dtype == torch.float64 else x.float()) - self._centre(torch.float32)
                self._vectors.setdefault(cell, []).append(torch.where(flags[rows, None] == 0, y, torch.nan))
            elif not fits and cell in self._vectors:
                full[cell] = self._vectors.pop(cell)
        return summed, full

    def _finish_batch(
        self,
        flagged: Tensor,
        wait_for_flags: Callable[[], NDArray[np.int8]],
        prepared: PreparedBatch,
        kept: KeptStates | None,
        backend: ModuleType,
    ) -> None:
        """Offer rows to the samples, now that their cells are known on the CPU, and add the flagged rows."""
        flags, layout = wait_for_flags(), prepared.layout
        if kept is not None:
            at = None if kept.selected else np.arange(len(kept.vectors))
            self._offer(ORDINARY_CELLS, layout, prepared.candidates.rows, flags, kept.vectors, at)
        marked = np.flatnonzero(flags)
        if not len(marked):
            return
        self._counts[ORDINARY_CELLS].subtract(layout, marked)
        kind, offsets = flags[marked] & (NONFINITE | ODD), _offsets(flags[marked])
        cells = offsets + (marked >= layout.others)
        self._nonfinite += torch.from_numpy(np.bincount(cells[(kind & NONFINITE) > 0], minlength=len(CELLS)))
        parts = marked[marked < layout.others], marked[marked >= layout.others]
        for offset in (MASSIVE_CELLS, SINK_CELLS):
            self._offer(offset, layout, parts, flags, flagged, marked)
        for offset, odd in product(self._rows, (0, ODD)):
            rows = marked[(offsets == offset) & (kind == odd)]
            if not len(rows):
                continue
            part, states, version = layout.take(rows), flagged, backend
            limits = self._limits_of(states.dtype, None)
            if odd:  # their squares overflow or underflow in float32, not in float64
                states, version = states.index_select(0, part.index).double(), reference
                part = part.in_order()
            measured = version.measure(states, part, limits, self._centre(states.dtype))
            self._fold(states, part, self.context.table_rows(part, self._rows[offset]), offset, version, measured)

    def _offer(
        self,
        offset: int,
        layout: Layout,
        rows: tuple[Ints, Ints],
        flags: NDArray[np.int8],
        vectors: Tensor,
        at: Ints | None,
    ) -> None:
        """Offer finite rows of the layout to the samples; `at` are their rows in `vectors`.

        With `at=None`, `vectors` has only those that were selected, up to the sample size for each cell.
        """
        before = 0
        for first, offered in enumerate(rows):
            where = None if at is None else at[before : before + len(offered)]
            before += len(offered)
            sample = self.samples[offset + first]
            # Ordinary rows are sorted by key, and at the start all are candidates: stop when the sample is
            # full, or if it already is with smaller keys.
            at_once = max(2 * sample.size if offset == ORDINARY_CELLS else len(offered), 1)
            fit = np.zeros(0, dtype=np.int64)
            for start in range(0, len(offered), at_once):
                block = offered[start : start + at_once]
                if offset == ORDINARY_CELLS and layout.key[block[0]] >= sample.bound:
                    break
                matching = np.flatnonzero(((flags[block] & NONFINITE) == 0) & (_offsets(flags[block]) == offset))
                matching = matching[layout.key[block[matching]] < sample.bound]
                fit = np.concatenate([fit, start + matching])
                if offset == ORDINARY_CELLS and len(fit) >= sample.size:
                    fit = fit[: sample.size]
                    break
            if len(fit):
                places = first * sample.size + np.arange(len(fit)) if where is None else where[fit]
                sample.offer(layout, offered[fit], vectors, places)

    def _matrix(self, cell: int) -> Tensor:
        if cell not in self._products:
            dim = self.frame.dim
            self._products[cell] = torch.zeros(dim, dim, dtype=torch.float64, device=self.context.device)
        return self._products[cell]

    def state(self) -> State:
        """Return all sums by name on the CPU, as `LayerFold.state` does."""
        self.context.finish()
        state: State = {}
        for cell, parts in self._read_tables(GpuUnitTable.to_cpu):
            state |= {
                f"moments.{CELLS[cell]}.{key}": value for key, value in zip(TABLE_FIELDS, parts, strict=True)
            }
        for name, sample in zip(CELLS, self.samples, strict=True):
            state |= {
                f"sample.{name}.{field}": copy_to_cpu(values) if values.is_cuda else values
                for field, values in sample.read().items()
            }
        return {name: self._own(tensor) for name, tensor in (state | self._other_sums()).items()}

    def _take_rest(self, cell: int, parts: UnitSumsTuple) -> UnitSumsTuple:
        """Return the sums of a cell without those of all units without a vector, which are stored separately."""
        rest = parts[0] < 0
        if self.frame.kept is None or not rest.any():
            return parts
        of = rest.nonzero().squeeze(1)
        self._rest_sum[cell] = parts[2][of.to(parts[2].device)][0].cpu()
        self._rest_squares[cell] = parts[3][of][0]
        others = (~rest).nonzero().squeeze(1)
        codes, n, total, squares = parts
        return codes[others], n[others], total[others.to(total.device)], squares[others]

    def _counts_by_unit(self) -> State:
        """Return the counts by unit and group and, if not all units have a vector, the lengths of the others."""
        kept, state = self.frame.kept, State()
        if kept is not None:
            state |= {"rare_units.sum": self._rest_sum.clone(), "rare_units.squares": self._rest_squares.clone()}
        for offset, counts in self._counts.items():
            for first, (codes, n, lengths) in enumerate(counts.to_cpu()):
                cell = CELLS[offset + first]
                if len(codes):
                    state |= {f"unit_groups.{cell}.codes": codes, f"unit_groups.{cell}.n": n}
                if kept is not None and len(rare := (~kept.has_vector(codes)).nonzero().squeeze(1)):
                    parts = {"codes": codes[rare], "n": n[rare].sum(dim=1), "lengths": lengths[rare]}
                    state |= {f"rare_units.{cell}.{name}": part for name, part in parts.items()}
        return state

    @property
    def nbytes(self) -> int:
        """The size of the state, nearly: of its large tensors."""
        sums = [*(table.sum for table in self._tables.values()), *(table.sum for table in self._frequent.values())]
        vectors = (part for parts in self._vectors.values() for part in parts)
        held = sum(part.nbytes for part in (*sums, *self._products.values(), *vectors))
        held += sum(sample.nbytes for sample in self.samples)
        return held + (self._host.nbytes if self._host is not None else 0)

    def state_in_place(self) -> StateInPlace:
        """Return the same as `state`."""
        return {**self.state()}

    def _read_tables(
        self, read: Callable[[GpuUnitTable, RowIndex], Iterable[UnitSumsTuple]]
    ) -> Iterator[tuple[int, UnitSumsTuple]]:
        """Yield each cell that is not empty, with its sums by unit."""
        for offset, table in self._tables.items():
            for first, every in enumerate(read(table, self._rows[offset])):
                parts = self._take_rest(offset + first, every)
                if len(parts[0]):
                    yield offset + first, parts

    def _other_sums(self) -> State:
        """Return all sums except those by unit, on the CPU; some are views."""
        state = self._small_sums()
        for cell, matrix in self._filled_products():
            state[f"scatter.{CELLS[cell]}.products"] = copy_to_cpu(matrix)
        for cell, vectors in self._filled_vectors():
            state[f"scatter.{CELLS[cell]}.vectors"] = copy_to_cpu(vectors)
        for cell, (codes, n, total, squares) in self._filled_frequent():
            parts = zip(TABLE_FIELDS, (codes, n, total.cpu(), squares), strict=True)
            state |= {f"frequent_units.{CELLS[cell]}.{key}": part for key, part in parts}
        return state

    def _filled_products(self) -> Iterator[tuple[int, Tensor]]:
        """Yield each cell that is not empty, with its second moments on the device."""
        n = self._sums.n[..., 0].sum(dim=1).cpu()
        yield from ((cell, matrix) for cell, matrix in sorted(self._products.items()) if n[cell])

    def _filled_vectors(self) -> Iterator[tuple[int, Tensor]]:
        """Yield each cell that is not empty and has no second moments, with its vectors on the device."""
        for cell, parts in sorted(self._vectors.items()):
            vectors = torch.cat(parts)
            if len(vectors := vectors[~vectors[:, 0].isnan()]):
                yield cell, vectors.double()

    def _filled_frequent(self) -> Iterator[tuple[int, UnitSumsTuple]]:
        """Yield each cell that is not empty, with its sums of frequent units by group, `sum` on the device."""
        for offset, table in self._frequent.items():
            for first, parts in enumerate(table.read()):
                if len(parts[0]):
                    yield offset + first, parts

    def _small_sums(self) -> State:
        """Return the sums of which there are neither many rows nor many columns, on the CPU; some are views."""
        # Sums of y and of u are separated on the device: on the CPU, megabytes would be copied again.
        sum_by_group, directions_by_group = (part.contiguous().cpu() for part in self._sums.groups.unbind(dim=2))
        squares, cells, n_by_group = self._sums.squares.cpu(), self._sums.cells.cpu(), self._sums.n.cpu()
        n = n_by_group.sum(dim=1)
        state = {
            "directions.n": n[:, 1],
            "directions.sum": cells[:, 1],
            "directions.squares": cells[:, 3],
        }
        state |= {"scatter.n": n[:, 0], "scatter.sum": cells[:, 0]}
        low, high = self._extremes.cpu().unbind(dim=1)
        state |= {"norms.counts": self._bins.cpu(), "norms.zero": self._zero.cpu()}
        state |= {"norms.nonfinite": self._nonfinite, "norms.lowest": low, "norms.highest": high}
        state |= {"groups.n": n_by_group[..., 0], "groups.sum": sum_by_group, "groups.squares": squares}
        state |= {"groups.directed": n_by_group[..., 1], "groups.directions": directions_by_group}
        state |= self._counts_by_unit()
        state["frequent_units.slots"] = torch.from_numpy(self.context.frequent_codes.copy())
        if self._host is not None:
            state |= self._host.state()
        return state

    def _own(self, tensor: Tensor) -> Tensor:
        """Return a tensor with its own memory: what is written or merged must not change later."""
        copied = self.context.device.type == "cuda" and tensor is not self._nonfinite
        complete = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor if copied and complete else tensor.clone(memory_format=torch.contiguous_format)

    def load(self, state: State) -> None:
        """Load a state of this class or of `LayerFold` into an empty fold."""
        device, sums = self.context.device, self._sums
        for cell, name in enumerate(CELLS):
            if f"moments.{name}.codes" in state:
                parts = (state[f"moments.{name}.{key}"] for key in TABLE_FIELDS)
                self._tables[cell - cell % 2].load(self._rows[cell - cell % 2], cell % 2, *parts)
            if f"frequent_units.{name}.codes" in state:
                parts = (state[f"frequent_units.{name}.{key}"] for key in TABLE_FIELDS)
                self._frequent[cell - cell % 2].load(cell % 2, *parts)
            if f"unit_groups.{name}.codes" in state:
                parts = (state[f"unit_groups.{name}.{key}"] for key in ("codes", "n"))
                self._counts[cell - cell % 2].load(cell % 2, *parts)
            if f"rare_units.{name}.codes" in state:
                self._load_rare(cell, state)
            if f"scatter.{name}.products" in state:
                self._products[cell] = state[f"scatter.{name}.products"].to(device, copy=True)
            if f"scatter.{name}.vectors" in state:
                self._vectors[cell] = [state[f"scatter.{name}.vectors"].to(device, copy=True)]
            if f"sample.{name}.key" in state:
                self.samples[cell].load({field: state[f"sample.{name}.{field}"] for field in FIELDS})
        codes = state.get("frequent_units.slots", torch.zeros(0, dtype=torch.int64)).numpy()
        seen = np.flatnonzero(codes >= 0)
        self.context.frequent_codes[seen] = codes[seen]
        sums.cells[:, 0], sums.cells[:, 1] = state["scatter.sum"], state["directions.sum"]
        sums.cells[:, 3] = state["directions.squares"]
        sums.n[..., 0], sums.n[..., 1] = state["groups.n"], state["groups.directed"]
        sums.groups[:, :, 0], sums.groups[:, :, 1] = state["groups.sum"], state["groups.directions"]
        sums.squares.copy_(state["groups.squares"])
        self._bins.copy_(state["norms.counts"])
        self._zero.copy_(state["norms.zero"])
        self._extremes.copy_(torch.stack([state["norms.lowest"], state["norms.highest"]], dim=1))
        self._nonfinite.copy_(state["norms.nonfinite"])
        if self._host is not None:
            self._host.load(state)

    def _load_rare(self, cell: int, state: State) -> None:
        """Load the units of a cell without a vector: their lengths, and the sums over all of them."""
        offset, first = cell - cell % 2, cell % 2
        codes, n, lengths = (state[f"rare_units.{CELLS[cell]}.{key}"] for key in ("codes", "n", "lengths"))
        self._counts[offset].load_lengths(first, codes, lengths)
        rest = torch.tensor([-1]), n.sum(dim=0, keepdim=True)
        sums = (state[f"rare_units.{name}"][cell : cell + 1] for name in ("sum", "squares"))
        self._tables[offset].load(self._rows[offset], first, *rest, *sums)

    def to_cpu(self) -> LayerFold:
        """Return the same sums as a fold on the CPU, from which all results are computed."""
        fold = LayerFold(self.frame)
        fold.load(self.state())
        return fold

    def hand_over(self) -> LayerFold:
        """Return the same with all large sums left on the device until they are read; empties this fold."""
        self.context.finish()
        with self.context.activate():
            found = {id(rows): self._tables[offset].find(rows) for offset, rows in self._rows.items()}
        with (
            self.context.copy_lock,
            self.context.activate(),
        ):  # one layer at a time: a table and its copy need memory
            tables = dict(self._read_tables(lambda table, rows: table.read(rows, found[id(rows)])))
            on_device = {cell: self._tables[cell - cell % 2].spilled is None for cell in tables}
            for table in self._tables.values():
                table.clear()
        fold = LayerFold(self.frame)
        fold.load({name: self._own(tensor) for name, tensor in self._small_sums().items()})
        for cell, sample in enumerate(self.samples):
            fold.sample.load_cell(cell, sample.read())
        fold.scatter.products = {cell: DeviceTensor(matrix) for cell, matrix in self._filled_products()}
        fold.scatter.vectors = {cell: [DeviceTensor(vectors)] for cell, vectors in self._filled_vectors()}
        for cell, (codes, n, total, squares) in self._filled_frequent():
            fold.frequent_units.tables[cell].load(codes, n, DeviceTensor(total), squares)
        self._products, self._vectors, self._frequent = {}, {}, {}
        for cell, (codes, n, total, squares) in tables.items():
            fold.moments.tables[cell].load(codes, n, DeviceTensor(total) if on_device[cell] else total, squares)
        return fold


def _offsets(flags: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the first cell of the kind of each row. (rows,) -> (rows,)"""
    other = np.where(flags & SINK, SINK_CELLS, ORDINARY_CELLS)
    return np.where(flags & MASSIVE, MASSIVE_CELLS, other)


TABLE_FIELDS = ("codes", "n", "sum", "squares")
