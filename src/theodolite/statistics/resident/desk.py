"""The desk: what the layers of a survey share on a device, and what is put off until more is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.pieces import Ints
from theodolite.statistics.resident.side import Side
from theodolite.statistics.resident.tables import UnitRows
from theodolite.statistics.resident.transfer import sent

if TYPE_CHECKING:
    from theodolite.statistics.resident.fold import ResidentFold

OWED = 3
"""Layers whose rows kept apart may wait; each holds as much of them as it has states."""
COMMON, RARE = 0, 2
"""The first cell of those whose positions are not massive, and of those whose are; first positions come next."""


@dataclass(frozen=True)
class Laid:
    """A batch as the layers that share its places see it."""

    layout: Layout
    rows: Tensor  # (runs,) int64, the row of each run in the tables
    offered: tuple[Ints, Ints]  # rows of the layout that a sample may want, by their key: others, then first ones
    offered_rows: Tensor  # all those, on the device
    offered_at: Tensor  # where they lie among the states

    def among(self, rows: Tensor | None) -> Laid:
        """Return the same where the states lie at `rows` among others."""
        if rows is None:
            return self
        return replace(self, layout=self.layout.among(rows), offered_at=rows[self.offered_at])


class Desk:
    """What the layers of one survey share: the layout of the batch under way, units' rows, and what is owed."""

    def __init__(
        self, device: str | torch.device, *, use_kernels: bool | None = None, overlap: bool = False
    ) -> None:
        self.device = torch.device(device)
        self.use_kernels = use_kernels
        self.side = Side(self.device) if overlap and self.device.type == "cuda" else None
        self.rows = UnitRows()  # the same in every layer
        self.folds: list[ResidentFold] = []
        self._owed: deque[Callable[[], None]] = deque()
        self._laid: tuple[Places, Laid] | None = None
        self._ahead: dict[int, tuple[Places, Laid]] = {}
        self.copying = Lock()

    @property
    def apart_first(self) -> bool:
        """Say whether first positions are told apart, as the frames of all layers have it."""
        return all(fold.frame.apart_first for fold in self.folds)

    def lay_out(self, places: Places) -> None:
        """Lay a batch out before its turn, from the thread that prepares it: the model need not wait for that."""
        if len(places) and self.folds:
            with self.current():
                self._ahead[id(places)] = places, self._lay(places)

    def laid(self, batch: Batch) -> Laid:
        """Return the batch as it is laid out, once for layers that share places."""
        if self._laid is None or self._laid[0] is not batch.places:
            laid = self._taken(batch.places) or self._lay(batch.places)
            self._laid = batch.places, laid.among(batch.rows)
        return self._laid[1]

    def _taken(self, places: Places) -> Laid | None:
        """Return what was laid out ahead; what came before it will not be asked for, as of a stack left out."""
        if id(places) not in self._ahead:
            return None
        for earlier in list(self._ahead):
            _, laid = self._ahead.pop(earlier)
            if earlier == id(places):
                return laid
        return None

    def _lay(self, places: Places) -> Laid:
        layout = Layout.of(places, self.device, apart_first=self.apart_first)
        offered = self._offered(layout)
        rows = sent(np.concatenate(offered), self.device)
        return Laid(layout, self.runs(layout, self.rows), offered, rows, layout.index[rows])

    def runs(self, layout: Layout, rows: UnitRows) -> Tensor:
        """Return, on the device, the row of every run."""
        return sent(rows.of(layout.units.keys), self.device)

    def _offered(self, layout: Layout) -> tuple[Ints, Ints]:
        """Return the rows that the sample of some layer may want, if they are not massive there."""
        found = [np.zeros(0, dtype=np.int64)] * 2
        for first, rows in layout.parts:
            bound = max(fold.samples[COMMON + first].bound for fold in self.folds)
            some = np.flatnonzero(layout.key[rows] < bound) + rows.start
            found[first] = some[np.argsort(layout.key[some])]
        return found[0], found[1]

    def owe(self, debt: Callable[[], None]) -> None:
        """Put off what wants to know more than is known yet, and do the ones before."""
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

    def close(self) -> None:
        """Forget the layers, which know this desk, and what was laid out: the device's memory is theirs alone."""
        self.folds.clear()
        self._owed.clear()
        self._ahead.clear()
        self._laid = None

    def current(self) -> AbstractContextManager[object]:
        """Make the device the one that kernels are started on."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
