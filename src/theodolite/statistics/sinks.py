"""Sinks: positions that are massive at any layer, which are known when all layers of a batch have run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.frame import Frame


@dataclass(frozen=True)
class HeldBatch:
    """The states of one layer, copied, until the sinks among their positions are known."""

    places: Places
    massive: Tensor  # (positions,) bool, massive at this layer
    add: Callable[[Tensor], None]  # adds the states; takes the sinks, (positions,) bool
    discard: Callable[[], None] = lambda: None  # called instead of `add` if the batch is not added
    marks_sinks: bool = True  # whether its massive positions are sinks at the other layers


class Fold(Protocol):
    """Accumulates the batches of one layer."""

    frame: Frame

    def update(self, batch: Batch) -> None:
        """Add one batch."""

    def catch_up(self, batch: Batch | None = None) -> None:
        """Do work of an earlier batch that was deferred; with the next batch, also prepare for its units."""

    def hold(self, batch: Batch) -> HeldBatch:
        """Return a batch to be added when its sinks are known."""


KindAndLayer = tuple[int, int]
"""The number of a kind of unit, and of a layer."""


class BatchLayers:
    """Adds the layers of one batch to their folds: at once or, if sinks have their own cells, at the end.

    A position is a sink if it is massive at any layer that has the same positions: the layers of an encoder, for
    example, or those of a decoder. Of the streams of a model, only the residual stream marks sinks. Memory: the
    states of all layers of the batch.
    """

    def __init__(self, folds: Mapping[int, Fold], *others: Mapping[int, Fold]) -> None:
        self._folds = (folds, *others)  # by kind of unit
        self._held: deque[HeldBatch] = deque()
        self._added: set[KindAndLayer] = set()
        self.consistent = True  # false if an error interrupted a fold while it added a batch

    def add(self, batch: Batch) -> None:
        """Add or hold the states of a layer."""
        fold = self._folds[batch.kind][batch.layer]
        if fold.frame.separate_sinks:
            self.consistent = False
            fold.catch_up(batch)
            self.consistent = True
            self._held.append(fold.hold(batch))
            return
        self.consistent = False
        fold.update(batch)
        self.consistent = True
        self._added.add((batch.kind, batch.layer))

    def discard(self) -> frozenset[KindAndLayer]:
        """Drop what is held of an interrupted batch; return the layers to which the batch was added before."""
        while self._held:
            self._held.popleft().discard()
        if self.consistent:  # deferred work keeps states of the batch before
            self.consistent = False
            for fold in (fold for folds in self._folds for fold in folds.values()):
                fold.catch_up()
            self.consistent = True
        added = frozenset(self._added)
        self._added.clear()
        return added

    def finish(self) -> None:
        """Find the sinks, and add what is held in the order of the layers, freeing each layer when it is added."""
        sinks: dict[int, Tensor] = {}
        for held in self._held:
            found = held.massive if held.marks_sinks else torch.zeros_like(held.massive)
            before = sinks.get(id(held.places))
            sinks[id(held.places)] = found if before is None else found | before.to(found.device)
        self.consistent = not self._held
        while self._held:
            held = self._held.popleft()
            held.add(sinks[id(held.places)])
        self.consistent = True
        self._added.clear()
