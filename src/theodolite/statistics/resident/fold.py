"""The statistics of a layer kept on a device: what `LayerFold` holds, summed where the states are.

A batch is folded as its states leave the block, before the next block may write over them. Rows that are massive
or not finite, known only then, are left out and kept apart; the processor learns which they are when later layers
have been queued, so that neither it nor the device stands still, and has them folded into cells of their own. The
files are those of `LayerFold`: surveys made here and on the processor merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from types import ModuleType
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite import pinned
from theodolite.batch import GROUPS, Batch
from theodolite.statistics.away import Away, brought
from theodolite.statistics.cells import CELLS
from theodolite.statistics.directions import Directions
from theodolite.statistics.fold import Kinds, LayerFold, kinds_of
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.moments import Moments
from theodolite.statistics.norms import BINS, Norms
from theodolite.statistics.resident import kernels, plain
from theodolite.statistics.resident.desk import COMMON, RARE, Desk, Laid
from theodolite.statistics.resident.gram import Form, Sheet, far_coordinates
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.passes import MASSIVE, NONFINITE, ODD, GroupSums, limits_of
from theodolite.statistics.resident.pieces import Ints
from theodolite.statistics.resident.reservoir import ResidentReservoir
from theodolite.statistics.resident.tables import ResidentTable, UnitRows
from theodolite.statistics.resident.transfer import fetched
from theodolite.statistics.sample import FIELDS, Sample
from theodolite.statistics.scatter import Scatter
from theodolite.statistics.statistic import Parts, State

RESIDENT: Kinds = (Moments, Directions, Scatter, Norms, Sample, Groups)
"""What is summed here; every other statistic of a layer is folded on the processor meanwhile."""
CROWD = 4
"""Times a sample's size: of more rows that it is offered, those that fit are chosen before they are kept."""
Table = tuple[Tensor, Tensor, Tensor, Tensor]
"""Codes, n, sum and squares by unit."""


class Offered(NamedTuple):
    """States kept for the samples until it is known whose they are."""

    vectors: Tensor
    chosen: bool  # those that fit, a sample's size of them for each cell; else all that are offered


class ResidentFold:
    """One layer's sums on a device. The names are those of the statistics in `LayerFold`."""

    def __init__(self, frame: Frame, desk: Desk) -> None:
        self.frame, self.desk = frame, desk
        desk.folds.append(self)
        device, cells, dim = desk.device, len(CELLS), frame.dim
        self._centres: dict[torch.dtype, Tensor] = {}
        self._far = far_coordinates(frame.centre, frame.spread)
        self._forms: dict[torch.dtype, Form] = {}
        self._limits: dict[tuple[torch.dtype, float | None], Tensor] = {}
        self._rare = UnitRows()  # rows of massive units, which each layer has its own of
        self._tables = {offset: ResidentTable(dim, device) for offset in (COMMON, RARE)}
        self.samples = [ResidentReservoir(frame.sample_size, device) for _ in CELLS]
        self._products: dict[int, Tensor] = {}
        self._sums = GroupSums(
            groups=torch.zeros(cells, GROUPS, 2, dim, dtype=torch.float64, device=device),
            squares=torch.zeros(cells, GROUPS, dtype=torch.float64, device=device),
            cells=torch.zeros(cells, 4, dim, dtype=torch.float64, device=device),
            n=torch.zeros(cells, GROUPS, 2, dtype=torch.int64, device=device),
        )
        self._bins = torch.zeros(cells, BINS, dtype=torch.int64, device=device)
        self._zero = torch.zeros(cells, dtype=torch.int64, device=device)
        self._extremes = torch.tensor([[math.inf, -math.inf]] * cells, dtype=torch.float64).to(device)
        self._nonfinite = torch.zeros(cells, dtype=torch.int64)
        pairs = {offset: slice(offset, offset + 2) for offset in (COMMON, RARE)}
        self._sums_of = {offset: GroupSums(*(part[two] for part in self._sums)) for offset, two in pairs.items()}
        norms = (self._bins, self._zero, self._extremes)
        self._norms_of = {offset: tuple(part[two] for part in norms) for offset, two in pairs.items()}
        others = [kind for kind in kinds_of(frame) if kind not in RESIDENT]
        self._host = LayerFold(frame, others) if others else None

    @torch.no_grad()
    def update(self, batch: Batch) -> None:
        """Take in one batch: its ordinary rows now, the others when later layers have been queued."""
        if self._host is not None:
            self._host.update(batch)
        if not len(batch.places):
            return
        with self.desk.current():
            laid = self.desk.laid(batch)
            states = batch.states.detach().to(self.desk.device)
            bound = self.frame.massive_above if self.frame.apart_massive else math.inf
            passes = self._passes(states)
            limits = self._limits_of(states.dtype, bound)
            flags, apart = self._fold(states, laid.layout, laid.rows, COMMON, limits, passes)
            marks = cast(Callable[[], NDArray[np.int8]], fetched(flags))
            offered = self._offered(states, laid, flags)
            self.desk.owe(lambda: self._fold_rest(apart, marks, laid, offered, passes))

    def _offered(self, states: Tensor, laid: Laid, flags: Tensor) -> Offered | None:
        """Keep the states that the samples may want: all or, where these are many, those of smallest key."""
        size, at = self.frame.sample_size, laid.offered_at
        counts = [len(rows) for rows in laid.offered]
        if len(at) <= CROWD * size:
            return Offered(states.index_select(0, at), False) if len(at) else None
        ordinary = (flags.index_select(0, laid.offered_rows) & (NONFINITE | MASSIVE)) == 0
        chosen = at.new_zeros(2, size + 1)  # what is not wanted goes to the last place
        for into, places, fit in zip(
            chosen, at.split_with_sizes(counts), ordinary.split_with_sizes(counts), strict=True
        ):
            rank = fit.cumsum(0)
            into.scatter_(0, torch.where(fit & (rank <= size), rank - 1, size), places)
        return Offered(states.index_select(0, chosen[:, :size].flatten()), True)

    def _passes(self, states: Tensor) -> ModuleType:
        chosen = self.desk.use_kernels
        return kernels if (kernels.usable(states) if chosen is None else chosen) else plain

    def _limits_of(self, dtype: torch.dtype, bound: float | None) -> Tensor:
        """Return the limits of ordinary rows or, without a bound, of rows that have been told apart."""
        if (dtype, bound) not in self._limits:
            massive = math.inf if bound is None else bound
            self._limits[dtype, bound] = limits_of(massive, dtype, self.desk.device, mark_odd=bound is not None)
        return self._limits[dtype, bound]

    def _form(self, dtype: torch.dtype) -> Form:
        if dtype not in self._forms:
            self._forms[dtype] = Form.of(dtype, self.frame.centre, self._far, self.desk.device)
        return self._forms[dtype]

    def _centre(self, dtype: torch.dtype) -> Tensor:
        """Return the centre, in the type of the states if that holds it, as it does where they had it measured."""
        if dtype not in self._centres:
            exact = bool((self.frame.centre.to(dtype).double() == self.frame.centre.double()).all())
            self._centres[dtype] = pinned.sent(
                self.frame.centre.to(dtype if exact else torch.float64), self.desk.device
            )
        return self._centres[dtype]

    def _rows_of(self, offset: int) -> UnitRows:
        return self._rare if offset else self.desk.rows

    def _fold(
        self, states: Tensor, layout: Layout, rows: Tensor, offset: int, limits: Tensor, passes: ModuleType
    ) -> tuple[Tensor, Tensor]:
        """Add the rows that are not flagged to the cells `offset` and the next; return flags, and what was."""
        form, centre, table = self._form(states.dtype), self._centre(states.dtype), self._tables[offset]
        table.reserve(self._rows_of(offset))
        aside = table.spilled is not None
        into = table.scratch(layout.units.runs) if aside else table
        at = torch.arange(layout.units.runs, device=self.desk.device) if aside else rows
        sheet = Sheet.room(form, layout.others, len(layout) - layout.others, self.desk.device)
        sums = self._sums_of[offset]
        measured, n, by_cell = passes.measure_pass(states, layout, centre, limits, sums, form, sheet)
        passes.add_norms(*self._norms_of[offset], measured.norms, measured.flags, layout.others)
        apart = passes.unit_pass(states, layout, measured.flags, form, centre, into, at, sheet)
        if aside:
            table.take_in(layout.units.keys, into)
        side = self.desk.side
        with side.running((sheet.rows, n, by_cell)) if side is not None else nullcontext():
            for chunks, parts in sheet.rounds(form.dim):
                partial = passes.products(chunks, form)
                for part, those, closing in parts:
                    matrix = self._matrix(offset + part)
                    passes.add_products(matrix, partial[those], n[part], by_cell[part], form, closing)
        return measured.flags, apart

    def _fold_rest(
        self,
        apart: Tensor,
        marks: Callable[[], NDArray[np.int8]],
        laid: Laid,
        offered: Offered | None,
        passes: ModuleType,
    ) -> None:
        """Offer rows to the samples, now that it is known whose they are; fold those that were kept apart."""
        told = marks()
        if offered is not None:
            at = None if offered.chosen else np.arange(len(laid.offered_at))
            self._offer(COMMON, laid.layout, laid.offered, told, offered.vectors, at)
        if not told.any():
            return
        rare = np.flatnonzero(told)
        lost = rare[(told[rare] & NONFINITE) > 0]
        self._nonfinite[0] += int((lost < laid.layout.others).sum())
        self._nonfinite[1] += int((lost >= laid.layout.others).sum())
        parts = rare[rare < laid.layout.others], rare[rare >= laid.layout.others]
        self._offer(RARE, laid.layout, parts, told, apart, rare)
        for mark in (MASSIVE, ODD, MASSIVE | ODD):
            rows = rare[told[rare] == mark]
            if not len(rows):
                continue
            offset = RARE if mark & MASSIVE else COMMON
            layout, states = laid.layout.taken(rows), apart
            limits = self._limits_of(states.dtype, None)
            if mark & ODD:  # float64 holds what float32 cannot
                states, passes = states.index_select(0, layout.index).double(), plain
                layout = layout.gathered()
            self._fold(states, layout, self.desk.runs(layout, self._rows_of(offset)), offset, limits, passes)

    def _offer(
        self,
        offset: int,
        layout: Layout,
        rows: tuple[Ints, Ints],
        told: NDArray[np.int8],
        vectors: Tensor,
        at: Ints | None,
    ) -> None:
        """Offer finite rows of the layout, which lie `at` these places among the vectors, to the samples.

        None: the vectors are those that will be found to fit, as many places for each cell as its sample has.
        """
        wanted = MASSIVE if offset else 0
        before = 0
        for first, some in enumerate(rows):
            where = None if at is None else at[before : before + len(some)]
            before += len(some)
            sample = self.samples[offset + first]
            # Ordinary rows come by their key, all of them at first: of those no more are looked at than can enter.
            at_once = 2 * sample.size if offset == COMMON else len(some)
            fit = np.zeros(0, dtype=np.int64)
            for start in range(0, len(some), max(at_once, 1)):
                these = some[start : start + at_once]
                ours = np.flatnonzero((told[these] & (NONFINITE | MASSIVE)) == wanted)
                ours = ours[layout.key[these[ours]] < sample.bound]
                fit = np.concatenate([fit, start + ours])
                if offset == COMMON and len(fit) >= sample.size:
                    fit = fit[: sample.size]
                    break
            if len(fit):
                places = first * sample.size + np.arange(len(fit)) if where is None else where[fit]
                sample.offer(layout, some[fit], vectors, places)

    def _matrix(self, cell: int) -> Tensor:
        if cell not in self._products:
            dim = self.frame.dim
            self._products[cell] = torch.zeros(dim, dim, dtype=torch.float64, device=self.desk.device)
        return self._products[cell]

    def state(self) -> State:
        """Return all sums by name on the processor, as `LayerFold.state` does."""
        self.desk.settle()
        state: State = {}
        for cell, parts in self._by_unit(ResidentTable.held):
            state |= {f"moments.{CELLS[cell]}.{key}": value for key, value in zip(_TABLE, parts, strict=True)}
        return {name: self._own(tensor) for name, tensor in (state | self._rest()).items()}

    def parts(self) -> Parts:
        """Return the same."""
        return {**self.state()}

    def _by_unit(self, read: Callable[[ResidentTable, UnitRows], Iterable[Table]]) -> Iterator[tuple[int, Table]]:
        """Yield what is read of the tables by unit, for each cell that holds anything."""
        for offset, table in self._tables.items():
            for first, parts in enumerate(read(table, self._rows_of(offset))):
                if len(parts[0]):
                    yield offset + first, parts

    def _rest(self) -> State:
        """Return all sums but those by unit, on the processor; some are views."""
        sums = GroupSums(*(part.cpu() for part in self._sums))
        n = sums.n.sum(dim=1)
        state = {
            "directions.n": n[:, 1],
            "directions.sum": sums.cells[:, 1],
            "directions.squares": sums.cells[:, 3],
        }
        state |= {"scatter.n": n[:, 0], "scatter.sum": sums.cells[:, 0]}
        for cell, matrix in sorted(self._products.items()):
            if n[cell, 0]:
                state[f"scatter.{CELLS[cell]}.products"] = brought(matrix)
        low, high = self._extremes.cpu().unbind(dim=1)
        state |= {"norms.counts": self._bins.cpu(), "norms.zero": self._zero.cpu()}
        state |= {"norms.nonfinite": self._nonfinite, "norms.lowest": low, "norms.highest": high}
        for name, sample in zip(CELLS, self.samples, strict=True):
            state |= {f"sample.{name}.{field}": values for field, values in sample.state().items()}
        state |= {"groups.n": sums.n[..., 0], "groups.sum": sums.groups[:, :, 0], "groups.squares": sums.squares}
        state |= {"groups.directed": sums.n[..., 1], "groups.directions": sums.groups[:, :, 1]}
        if self._host is not None:
            state |= self._host.state()
        return state

    def _own(self, tensor: Tensor) -> Tensor:
        """Return a tensor that is no view of another: what is written out or merged may not change later."""
        came = self.desk.device.type == "cuda" and tensor is not self._nonfinite
        whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor if came and whole else tensor.clone(memory_format=torch.contiguous_format)

    def load(self, state: State) -> None:
        """Take up sums that this or a fold on the processor has left, into a fold that is empty."""
        device, sums = self.desk.device, self._sums
        for cell, name in enumerate(CELLS):
            if f"moments.{name}.codes" in state:
                parts = (state[f"moments.{name}.{key}"] for key in _TABLE)
                self._tables[cell & 2].load(self._rows_of(cell & 2), cell & 1, *parts)
            if f"scatter.{name}.products" in state:
                self._products[cell] = state[f"scatter.{name}.products"].to(device, copy=True)
            if f"sample.{name}.key" in state:
                self.samples[cell].load({field: state[f"sample.{name}.{field}"] for field in FIELDS})
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

    def brought_back(self) -> LayerFold:
        """Return the same sums as a fold on the processor, from which everything is read off."""
        fold = LayerFold(self.frame)
        fold.load(self.state())
        return fold

    def handed_over(self) -> LayerFold:
        """Return the same, the sums by unit away on the device until they are asked for; this fold is spent."""
        self.desk.settle()
        with self.desk.copying, self.desk.current():  # layer after layer: a table and its copy stand side by side
            tables = dict(self._by_unit(ResidentTable.lying))
            away = {cell: self._tables[cell & 2].spilled is None for cell in tables}
            for table in self._tables.values():
                table.clear()
        fold = LayerFold(self.frame)
        fold.load({name: self._own(tensor) for name, tensor in self._rest().items()})
        for cell, (codes, n, total, squares) in tables.items():
            fold.moments.tables[cell].load(codes, n, Away(total) if away[cell] else total, squares)
        return fold


_TABLE = ("codes", "n", "sum", "squares")
