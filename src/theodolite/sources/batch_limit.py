"""Batches that do not fit in memory: which errors say so, and the largest number of tokens to run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from theodolite.errors import TheodoliteError
from theodolite.sources.source import Sink, Source

OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")
"""What PyTorch and the libraries of CUDA write in a RuntimeError if an allocation fails."""


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


@contextmanager
def suppress_full_memory() -> Iterator[None]:
    """End the body without an error if memory runs out; the frames that kept tensors in memory are gone then."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise


def fits_in_memory(source: Source, prepared: Any, sink: Sink, finish: Callable[[], None] = lambda: None) -> bool:
    """Run a batch, and finish it; return False if memory ran out."""
    with suppress_full_memory():
        source.run(prepared, sink)
        finish()
        return True
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory could not be allocated.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    True
    >>> is_out_of_memory(RuntimeError("shapes do not match"))
    False
    """
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or (isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY))
