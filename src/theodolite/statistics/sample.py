"""Sample: a few thousand vectors, chosen by hash, for measures that cannot be computed from sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.devices import DeviceTensor, to_device
from theodolite.half_precision import widen
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, StateInPlace, Statistic

FIELDS = ("key", "unit", "context", "vector")


class Reservoir:
    """The rows of smallest key among all offered. Independent of their order and of how they are split."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.rows["key"]) if self.rows else 0

    def offer(self, **rows: Tensor) -> None:
        """Offer rows, all fields of the same length; keep the smallest keys."""
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
        if len(self) < self.size:  # not full yet: make new tensors
            mine = self.rows or {name: values[:0] for name, values in rows.items()}
            self.rows = {name: torch.cat([mine[name][staying], rows[name][incoming]]) for name in rows}
        else:  # full: overwrite only the rows that are replaced
            replaced = torch.ones(len(self), dtype=torch.bool)
            replaced[staying] = False
            for name, values in self.rows.items():
                values[replaced] = rows[name][incoming]

    def sorted(self) -> dict[str, Tensor]:
        """Return the rows sorted by key. Read-only: they may be the rows themselves."""
        if not self.rows or bool((self.rows["key"][1:] >= self.rows["key"][:-1]).all()):
            return dict(self.rows)
        order = torch.argsort(self.rows["key"])
        return {name: values[order] for name, values in self.rows.items()}


class Sample(Statistic):
    """By cell: the `sample_size` vectors of smallest key, with their unit and context.

    The key is a hash of the position in the corpus, so the sample is uniform and does not depend on sharding.
    Memory: sample_size (4 dim + 24) bytes per cell.
    """

    name: ClassVar[str] = "sample"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells = [Reservoir(frame.sample_size) for _ in CELLS]
        self._on_device: dict[int, DeviceTensor] = {}  # vectors of some cells, until something reads them

    def update(self, rows: Rows) -> None:
        """Offer each row to its cell. O(rows), and O(dim) for each that enters."""
        self._copy_to_cpu()
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
        self._copy_to_cpu()
        other._copy_to_cpu()
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            if len(theirs):
                mine.offer(**theirs.rows)

    def state(self) -> State:
        """Return key, unit, context and vector of each cell that is not empty, sorted by key."""
        self._copy_to_cpu()
        return {
            f"{cell}.{field}": values
            for cell, reservoir in zip(CELLS, self.cells, strict=True)
            for field, values in reservoir.sorted().items()
        }

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying vectors that are on a device; these may be in half precision."""
        on_device = self._on_device
        if not on_device:
            return {**self.state()}
        vectors = {f"{CELLS[cell]}.vector": held for cell, held in on_device.items()}
        others = {
            f"{name}.{field}": values
            for name, reservoir in zip(CELLS, self.cells, strict=True)
            for field, values in reservoir.rows.items()
        }
        return others | vectors

    def load_cell(self, cell: int, rows: dict[str, Tensor]) -> None:
        """Load the rows of a cell, sorted by key; vectors on a device stay there until something reads them."""
        self.cells[cell].rows = {name: values for name, values in rows.items() if name != "vector"}
        if rows:
            self._on_device[cell] = DeviceTensor(rows["vector"], narrow=True)

    def free_device(self) -> None:
        """Copy vectors that are on a device to the CPU as they are written, in half precision if possible."""
        for held in self._on_device.values():
            held.cpu()

    def _copy_to_cpu(self) -> None:
        for cell, held in self._on_device.items():
            self.cells[cell].rows = {**self.cells[cell].rows, "vector": widen(held.cpu())}
        self._on_device = {}  # a new one: another thread may be reading this one

    @property
    def on_device(self) -> dict[int, Tensor]:
        """The vectors that are on a device, by cell. (vectors, dim) each"""
        held = {cell: one.on_device for cell, one in self._on_device.items()}
        return {cell: tensor for cell, tensor in held.items() if tensor is not None}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of full samples of float32 vectors."""
        return frame.sample_size * (4 * frame.dim + 24) * cells

    def load(self, state: State) -> None:
        """Restore the vectors; those that were written in half precision are again float32."""
        self._on_device = {}
        for cell, reservoir in zip(CELLS, self.cells, strict=True):
            filled = f"{cell}.key" in state
            reservoir.rows = {field: widen(state[f"{cell}.{field}"]) for field in FIELDS} if filled else {}

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for reservoir in self.cells:
            if len(reservoir):
                reservoir.rows["unit"] = codes[reservoir.rows["unit"]]

    def copy_to_device(self, device: torch.device, present: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Return the vectors of each cell that is not empty on a device, for `population`. (vectors, dim) each

        Those in `present` are on a device.
        """
        filled = [cell for cell, reservoir in enumerate(self.cells) if len(reservoir)]
        if set(filled) - present.keys():
            self._copy_to_cpu()
        return {
            cell: present[cell].to(device)
            if cell in present
            else to_device(self.cells[cell].rows["vector"], device)
            for cell in filled
        }

    def population(self, cells: Iterable[int], on_device: Mapping[int, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the rows of smallest key of these cells together; an empty dict if there are none.

        Read-only: they may be the sample itself. With `on_device`, the vectors of each cell on a device (see
        `copy_to_device`), vectors are selected there.
        """
        chosen = [cell for cell in cells if len(self.cells[cell])]
        filled = [self.cells[cell] for cell in chosen]
        if on_device is not None and filled:
            order = torch.cat([each.rows["key"] for each in filled]).argsort(stable=True)[: self.frame.sample_size]
            rows = {name: torch.cat([each.rows[name] for each in filled])[order] for name in FIELDS[:-1]}
            vectors = torch.cat([on_device[cell] for cell in chosen])
            return rows | {FIELDS[-1]: vectors[to_device(order, vectors.device)]}
        self._copy_to_cpu()
        if len(filled) == 1:  # without a copy
            return filled[0].sorted()
        union = Reservoir(self.frame.sample_size)
        for reservoir in filled:
            union.offer(**reservoir.rows)
        return union.sorted()
