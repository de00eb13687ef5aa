"""Out of memory: a batch that does not fit is split into halves of windows, and so are all batches after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from theodolite.errors import TheodoliteError
from theodolite.sources.source import Source
from theodolite.statistics.sinks import BatchLayers, Fold, KindAndLayer

OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")
"""What PyTorch and the libraries of CUDA write in a RuntimeError if an allocation fails."""


class PartlyAddedError(Exception):
    """Memory ran out while a batch was added: the sums have an unknown part of it, and must not be used."""


class BatchLimit:
    """The largest number of tokens that is run at a time: none, until memory runs out."""

    def __init__(self, warn: Callable[[str], None] = lambda text: None) -> None:
        self.tokens: int | None = None
        self._warn = warn

    def split(self, prepared: Any) -> list[Any]:
        """Return the batch in parts of whole windows that are within the limit, or have one window."""
        parts, waiting = [], deque([prepared])
        while waiting:
            part = waiting.popleft()
            halves = part.halves() if self.tokens is not None and part.tokens > self.tokens else ()
            waiting.extendleft(reversed(halves))
            if not halves:
                parts.append(part)
        return parts

    def lower(self, prepared: Any, device: str) -> None:
        """Halve the limit after a batch that did not fit; raise if it cannot be split."""
        if not (hasattr(prepared, "halves") and prepared.halves()):
            size = f"A window of {prepared.tokens:,} tokens" if hasattr(prepared, "tokens") else "A batch"
            raise TheodoliteError(
                f"{size} does not fit in the memory of {device}. Use a smaller --max-tokens, --dtype bfloat16, "
                "fewer --layers, or --populations all,without-first,without-massive, which holds the states of "
                "one layer at a time."
            )
        self.tokens = prepared.tokens // 2
        self._warn(
            f"{device} ran out of memory with {prepared.tokens:,} tokens: from here on at most "
            f"{self.tokens:,} tokens run at a time (--batch-tokens)"
        )


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
        try:
            self._source.run(
                part, lambda batch: None if (batch.kind, batch.layer) in added else self._layers.add(batch)
            )
            self._layers.finish()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            return None
        # Outside of `except`: the error is gone, and with it the frames that kept tensors in memory.
        added_now = self._layers.discard()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()
        if not self._layers.consistent:
            self._limit.lower(part, self._device)
            raise PartlyAddedError
        return added_now


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory could not be allocated.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    True
    >>> is_out_of_memory(RuntimeError("shapes do not match"))
    False
    """
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or (isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY))
