"""The statistics of a layer kept on a device: what `LayerFold` holds, summed where the states are.

A batch is folded in two steps. As the states leave the block, one pass sums them by unit, copies them (blocks may
write over what they gave out) and flags the rows that are massive or not finite. The rest waits until the next
layer has been queued: by then the processor can read the flags without the device ever standing still, and knows
which rows belong to which cell. The files are those of `LayerFold`: surveys made here and on the processor merge.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import GROUPS, Batch, Places
from theodolite.statistics.cells import CELLS
from theodolite.statistics.fold import CONTEXTUAL, LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.norms import BINS
from theodolite.statistics.resident import kernels, plain
from theodolite.statistics.resident.gram import Gram
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.pieces import Ints
from theodolite.statistics.resident.plain import MASSIVE, NONFINITE, ODD, limits_of
from theodolite.statistics.resident.reservoir import ResidentReservoir
from theodolite.statistics.resident.side import Side
from theodolite.statistics.resident.tables import ResidentTable, UnitRows
from theodolite.statistics.resident.transfer import fetched, sent
from theodolite.statistics.sample import FIELDS
from theodolite.statistics.statistic import State

Seen = tuple[Tensor, Tensor, Tensor]
"""Rows in the layout's order, their norms and their flags."""
OWED = 1  # layers whose second step may wait


class Desk:
    """What the layers of one survey share: the layout of the batch under way, units' rows, and what is owed."""

    def __init__(
        self, device: str | torch.device, *, use_kernels: bool | None = None, overlap: bool = False
    ) -> None:
        self.device = torch.device(device)
        self.use_kernels = use_kernels
        self.side = Side(self.device) if overlap and self.device.type == "cuda" else None
        self.rows = (UnitRows(), UnitRows())  # of other and of first positions: the same in every layer
        self._owed: deque[Callable[[], None]] = deque()
        self._laid: tuple[Places, Layout, tuple[Tensor, Tensor]] | None = None
        self._ahead: dict[int, tuple[Places, Layout]] = {}
        self.apart_first = True  # as the frames of all layers have it

    def lay_out(self, places: Places) -> None:
        """Lay a batch out before its turn, from the thread that prepares it: the model need not wait for that."""
        if len(places):
            with self.current():
                self._ahead[id(places)] = places, Layout.of(places, self.device, apart_first=self.apart_first)

    def layout(self, batch: Batch) -> tuple[Layout, tuple[Tensor, Tensor]]:
        """Return the batch's layout and the tables' rows of its runs, made once for layers that share places."""
        if self._laid is None or self._laid[0] is not batch.places:
            _, layout = self._ahead.pop(id(batch.places), (None, None))
            layout = layout or Layout.of(batch.places, self.device, apart_first=self.apart_first)
            layout = layout.among(batch.rows)
            self._laid = batch.places, layout, self.runs(layout, self.rows)
        return self._laid[1:]

    def runs(self, layout: Layout, rows: tuple[UnitRows, UnitRows]) -> tuple[Tensor, Tensor]:
        """Return, on the device, the row of every run."""
        other, first = (sent(rows[part].of(layout.units[part].keys), self.device) for part in (0, 1))
        return other, first

    def owe(self, debt: Callable[[], None]) -> None:
        """Put off a second step, and do the ones before."""
        self._owed.append(debt)
        while len(self._owed) > OWED:
            self._owed.popleft()()

    def settle(self) -> None:
        """Do all that was put off, and let nothing that comes later begin before."""
        with self.current():
            while self._owed:
                self._owed.popleft()()
            if self.side is not None:
                self.side.join()

    def current(self) -> AbstractContextManager[object]:
        """Make the device the one that kernels are started on."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()


class ResidentFold:
    """One layer's sums on a device. The names are those of the statistics in `LayerFold`."""

    def __init__(self, frame: Frame, desk: Desk) -> None:
        self.frame, self.desk = frame, desk
        desk.apart_first = frame.apart_first
        device, cells, dim = desk.device, len(CELLS), frame.dim
        self._centre = frame.centre.to(device)
        self._gram = Gram(frame.centre, frame.spread, device)
        self._limits: dict[tuple[torch.dtype, float | None], Tensor] = {}
        self._rare = (UnitRows(), UnitRows())  # rows of massive units, which each layer has its own of
        self._tables = [ResidentTable(dim, device) for _ in CELLS]
        self._samples = [ResidentReservoir(frame.sample_size, device) for _ in CELLS]
        self._products: dict[int, Tensor] = {}
        # y, u, y^2 and u^2 as `group_pass` gives them: by cell and group (the squares not kept so), and by cell.
        self._groups = torch.zeros(cells, GROUPS, 2, dim, dtype=torch.float64, device=device)
        self._squares = torch.zeros(cells, GROUPS, dtype=torch.float64, device=device)
        self._cells = torch.zeros(cells, 4, dim, dtype=torch.float64, device=device)
        self._n = torch.zeros(cells, GROUPS, 2, dtype=torch.int64, device=device)  # summed, and directed
        self._bins = torch.zeros(cells, BINS, dtype=torch.int64, device=device)
        self._zero = torch.zeros(cells, dtype=torch.int64, device=device)
        self._extremes = torch.tensor([[math.inf, -math.inf]] * cells, dtype=torch.float64).to(device)
        self._nonfinite = torch.zeros(cells, dtype=torch.int64)
        self._host = LayerFold(frame, CONTEXTUAL) if frame.contextuality else None

    @torch.no_grad()
    def update(self, batch: Batch) -> None:
        """Take in one batch: its sums by unit now, the rest when the next layer has been queued."""
        if self._host is not None:
            self._host.update(batch)
        if len(batch.places):
            with self.desk.current():
                self._first_step(batch)

    def _first_step(self, batch: Batch) -> None:
        if self.desk.side is not None:
            self.desk.side.await_(self)  # what it did for this layer's batch before
        layout, rows = self.desk.layout(batch)
        states = batch.states.detach().to(self.desk.device)
        bound = self.frame.massive_above if self.frame.apart_massive else math.inf
        passes = self._passes(states)
        seen = self._by_unit(states, layout, rows, 0, self._limits_of(states.dtype, bound), passes)
        marks = cast(Callable[[], NDArray[np.int8]], fetched(seen[2]))
        side = self.desk.side
        if side is None:
            self.desk.owe(lambda: self._second_step(*seen, marks, layout, passes))
            return
        side.lend(seen)

        def beside() -> None:
            with side.running(self):
                self._second_step(*seen, marks, layout, passes)

        self.desk.owe(beside)

    def _passes(self, states: Tensor) -> ModuleType:
        chosen = self.desk.use_kernels
        return kernels if (kernels.usable(states) if chosen is None else chosen) else plain

    def _limits_of(self, dtype: torch.dtype, bound: float | None) -> Tensor:
        """Return the limits of ordinary rows or, without a bound, of rows that have been told apart."""
        if (dtype, bound) not in self._limits:
            massive = math.inf if bound is None else bound
            self._limits[dtype, bound] = limits_of(massive, dtype, self.desk.device, mark_odd=bound is not None)
        return self._limits[dtype, bound]

    def _rows_of(self, offset: int) -> tuple[UnitRows, UnitRows]:
        return self._rare if offset else self.desk.rows

    def _by_unit(
        self,
        states: Tensor,
        layout: Layout,
        rows: tuple[Tensor, Tensor],
        offset: int,
        limits: Tensor,
        passes: ModuleType,
    ) -> Seen:
        """Add rows to the tables of cells `offset` and the next; return them, their norms and their flags."""
        tables = self._tables[offset : offset + 2]
        targets = []
        for part, table in enumerate(tables):
            table.reserve(self._rows_of(offset)[part])
            runs = layout.units[part].runs
            aside = table.spilled is not None
            into = table.scratch(runs) if aside else table
            targets.append((into, torch.arange(runs, device=self.desk.device) if aside else rows[part]))
        seen: Seen = passes.unit_pass(states, layout, self._centre, limits, tuple(targets))
        for part, table in enumerate(tables):
            if table.spilled is not None:
                table.take_in(layout.units[part].keys, targets[part][0])
        return seen

    def _second_step(
        self,
        own: Tensor,
        norms: Tensor,
        flags: Tensor,
        marks: Callable[[], NDArray[np.int8]],
        layout: Layout,
        passes: ModuleType,
    ) -> None:
        """Sum what is not by unit. `own` is written over: the rows told apart become 0."""
        told = marks()
        rare = np.flatnonzero(told)
        self._offer(own, told, rare, layout)
        if len(rare):
            self._fold_apart(own, told, rare, layout, passes)
            own.index_fill_(0, sent(rare, self.desk.device), 0.0)
        self._sum(own, norms, flags, layout, 0, passes)

    def _offer(self, own: Tensor, told: NDArray[np.int8], rare: Ints, layout: Layout) -> None:
        """Offer the finite rows to the samples of their cells."""
        for cell, sample in enumerate(self._samples):
            part = slice(0, layout.others) if cell % 2 == 0 else slice(layout.others, len(layout))
            if cell < 2:
                rows = np.flatnonzero(layout.key[part] < sample.bound) + part.start
            else:
                rows = rare[(rare >= part.start) & (rare < part.stop)]
                rows = rows[layout.key[rows] < sample.bound]
            rows = rows[(told[rows] & (NONFINITE | MASSIVE)) == (MASSIVE if cell >= 2 else 0)]
            if len(rows):
                sample.offer(layout, rows, own)

    def _fold_apart(
        self, own: Tensor, told: NDArray[np.int8], rare: Ints, layout: Layout, passes: ModuleType
    ) -> None:
        """Count what is not finite; fold massive rows into their own cells, and odd ones in float64."""
        lost = rare[(told[rare] & NONFINITE) > 0]
        self._nonfinite[0] += int((lost < layout.others).sum())
        self._nonfinite[1] += int((lost >= layout.others).sum())
        for mark in (MASSIVE, ODD, MASSIVE | ODD):
            rows = rare[told[rare] == mark]
            if not len(rows):
                continue
            offset = 2 if mark & MASSIVE else 0
            part, which = layout.taken(rows)
            x = own.index_select(0, which)
            limits = self._limits_of(own.dtype, None)
            if mark & ODD:
                x, passes = x.double(), plain
            runs = self.desk.runs(part, self._rows_of(offset))
            self._sum(*self._by_unit(x, part, runs, offset, limits, passes), part, offset, passes)

    def _sum(
        self, own: Tensor, norms: Tensor, flags: Tensor, layout: Layout, offset: int, passes: ModuleType
    ) -> None:
        """Add what `group_pass` gives, the histogram of norms and the products to cells `offset` and the next."""
        sums, counts = passes.group_pass(own, norms, flags, layout, self._centre)
        here = slice(offset, offset + 2)
        by_group = sums.view(2, GROUPS, 4, -1)
        by_cell = by_group.sum(dim=1)
        self._groups[here] += by_group[:, :, :2]
        self._squares[here] += by_group[:, :, 2].sum(dim=2)
        self._cells[here] += by_cell
        counts = counts.view(2, GROUPS, 2)
        self._n[here] += counts
        passes.add_norms(self._bins[here], self._zero[here], self._extremes[here], norms, flags, layout.others)
        n, keep = counts[:, :, 0].sum(dim=1), flags == 0
        for first, rows in layout.parts:
            y, _, y_squares, _ = by_cell[first].unbind()
            matrix = self._matrix(offset + first)
            self._gram.add(matrix, own[rows], keep[rows], n[first], y, y_squares, passes.add_block)

    def _matrix(self, cell: int) -> Tensor:
        if cell not in self._products:
            dim = self.frame.dim
            self._products[cell] = torch.zeros(dim, dim, dtype=torch.float64, device=self.desk.device)
        return self._products[cell]

    def state(self) -> State:
        """Return all sums by name on the processor, as `LayerFold.state` does."""
        self.desk.settle()
        n = self._n.sum(dim=1).cpu()
        state: State = {}
        for cell, name in enumerate(CELLS):
            parts = self._tables[cell].held(self._rows_of(cell & 2)[cell & 1])
            if len(parts[0]):
                state |= {f"moments.{name}.{key}": value for key, value in zip(_TABLE, parts, strict=True)}
        cells = self._cells.cpu()
        state |= {
            "directions.n": n[:, 1].clone(),
            "directions.sum": cells[:, 1],
            "directions.squares": cells[:, 3],
        }
        state |= {"scatter.n": n[:, 0].clone(), "scatter.sum": cells[:, 0]}
        for cell, matrix in sorted(self._products.items()):
            if n[cell, 0]:
                state[f"scatter.{CELLS[cell]}.products"] = matrix.cpu()
        low, high = self._extremes.cpu().unbind(dim=1)
        state |= {"norms.counts": self._bins.cpu(), "norms.zero": self._zero.cpu()}
        state |= {"norms.nonfinite": self._nonfinite.clone(), "norms.lowest": low, "norms.highest": high}
        for name, sample in zip(CELLS, self._samples, strict=True):
            state |= {f"sample.{name}.{field}": values for field, values in sample.state().items()}
        counts, groups = self._n.cpu(), self._groups.cpu()
        state |= {"groups.n": counts[..., 0], "groups.sum": groups[:, :, 0], "groups.squares": self._squares.cpu()}
        state |= {"groups.directed": counts[..., 1], "groups.directions": groups[:, :, 1]}
        if self._host is not None:
            state |= self._host.state()
        # Each a tensor of its own: nothing that is written out or merged may be a view of another.
        return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}

    def load(self, state: State) -> None:
        """Take up sums that this or a fold on the processor has left, into a fold that is empty."""
        device = self.desk.device
        for cell, name in enumerate(CELLS):
            if f"moments.{name}.codes" in state:
                parts = (state[f"moments.{name}.{key}"] for key in _TABLE)
                self._tables[cell].load(self._rows_of(cell & 2)[cell & 1], *parts)
            if f"scatter.{name}.products" in state:
                self._products[cell] = state[f"scatter.{name}.products"].to(device, copy=True)
            if f"sample.{name}.key" in state:
                self._samples[cell].load({field: state[f"sample.{name}.{field}"] for field in FIELDS})
        self._cells[:, 0], self._cells[:, 1] = state["scatter.sum"], state["directions.sum"]
        self._cells[:, 3] = state["directions.squares"]
        self._n[..., 0], self._n[..., 1] = state["groups.n"], state["groups.directed"]
        self._groups[:, :, 0], self._groups[:, :, 1] = state["groups.sum"], state["groups.directions"]
        self._squares.copy_(state["groups.squares"])
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


_TABLE = ("codes", "n", "sum", "squares")
