"""Out of memory: a batch that does not fit is split into halves of windows, and so are all batches after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from theodolite.batch import Batch
from theodolite.sources.batch_limit import BatchLimit, fits_in_memory, suppress_full_memory
from theodolite.sources.source import Source
from theodolite.statistics.sinks import BatchLayers, Fold, KindAndLayer


class PartlyAddedError(Exception):
    """Memory ran out while a batch was added: the sums have an unknown part of it, and must not be used."""


class BatchRunner:
    """Runs batches and adds each whole and once to the folds, in smaller parts if memory runs out.

    `folds` are those of each kind of unit.

    If memory runs out in the forward pass, no sum has changed, or only those of layers that are complete: the
    halves are then run for the other layers. If it runs out while states are added, the sums are lost.
    """

    def __init__(self, source: Source, folds: Sequence[Mapping[int, Fold]], limit: BatchLimit) -> None:
        self._source, self._layers, self._limit = source, BatchLayers(*folds), limit
        self._device = str(getattr(source, "device", "cpu"))

    def run(self, prepared: Any) -> None:
        """Run a batch, and add it to the folds."""
        waiting = deque([(prepared, frozenset[KindAndLayer]())])
        while waiting:
            batch, added = waiting.popleft()
            parts = self._limit.split(batch)
            if len(parts) == 1:
                added_now = self._run_part(batch, added)
                if added_now is None:
                    continue
                self._limit.lower(batch, self._device)
                parts, added = batch.halves(), added | added_now
            waiting.extendleft((part, added) for part in reversed(parts))

    def _run_part(self, part: Any, added: frozenset[KindAndLayer]) -> frozenset[KindAndLayer] | None:
        """Run a part and add it to all layers but those in `added`.

        Return None, or the layers that are complete if memory ran out before the part was added to all.
        """

        def add(batch: Batch) -> None:
            if (batch.kind, batch.layer) not in added:
                self._layers.add(batch)

        if fits_in_memory(self._source, part, add, self._layers.finish):
            return None
        added_now = frozenset[KindAndLayer]()
        with suppress_full_memory():  # deferred work of the batch before may need more
            added_now = self._layers.discard()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()
        if not self._layers.consistent:
            self._limit.lower(part, self._device)
            raise PartlyAddedError
        return added_now
