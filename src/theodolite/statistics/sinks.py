"""Sinks: positions that are massive at any layer, which are known when all layers of a batch have run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.frame import Frame


@dataclass(frozen=True)
class HeldBatch:
    """The states of one layer, copied, until the sinks among their positions are known."""

    places: Places
    massive: Tensor  # (positions,) bool, massive at this layer
    add: Callable[[Tensor], None]  # adds the states; takes the sinks, (positions,) bool


class Fold(Protocol):
    """Accumulates the batches of one layer."""

    frame: Frame

    def update(self, batch: Batch) -> None:
        """Add one batch."""

    def hold(self, batch: Batch) -> HeldBatch:
        """Return a batch to be added when its sinks are known."""


class BatchLayers:
    """Adds the layers of one batch to their folds: at once or, if sinks have their own cells, at the end.

    A position is a sink if it is massive at any layer that has the same positions: the layers of an encoder, for
    example, or those of a decoder. Memory: the states of all layers of the batch.
    """

    def __init__(self, folds: Mapping[int, Fold], *others: Mapping[int, Fold]) -> None:
        self._folds = (folds, *others)  # by kind of unit
        self._held: deque[HeldBatch] = deque()

    def add(self, batch: Batch) -> None:
        """Add or hold the states of a layer."""
        fold = self._folds[batch.kind][batch.layer]
        if fold.frame.separate_sinks:
            self._held.append(fold.hold(batch))
        else:
            fold.update(batch)

    def finish(self) -> None:
        """Find the sinks, and add what is held in the order of the layers, freeing each layer when it is added."""
        sinks: dict[int, Tensor] = {}
        for held in self._held:
            before = sinks.get(id(held.places))
            sinks[id(held.places)] = (
                held.massive if before is None else held.massive | before.to(held.massive.device)
            )
        while self._held:
            held = self._held.popleft()
            held.add(sinks[id(held.places)])
