"""Away: sums that lie on a device when all else of a layer is on the processor, and come there when asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

BLOCK = 2**23  # bytes that come at a time


class Away:
    """A tensor on a device. It is copied to the processor once, by the first who wants it, and then let go.

    Whoever measures it where it lies takes `there` before and holds on to it as long as is needed.
    """

    def __init__(self, there: Tensor) -> None:
        self.shape, self.dtype = there.shape, there.dtype
        self._there: Tensor | None = there
        self._made = _marked(there)
        self._here: Tensor | None = None
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Its size."""
        return self.shape.numel() * self.dtype.itemsize

    @property
    def there(self) -> Tensor | None:
        """The tensor on its device; None once it has been copied."""
        return self._there

    def here(self) -> Tensor:
        """Return the copy on the processor; others who ask meanwhile wait for it."""
        with self._lock:
            if self._here is None:
                assert self._there is not None
                self._here = _copied(self._there, self._made)
                self._there = self._made = None
            return self._here


def here(value: Tensor | Away) -> Tensor:
    """Return a tensor on the processor, whichever came."""
    return value.here() if isinstance(value, Away) else value


def brought(there: Tensor) -> Tensor:
    """Return a copy on the processor of a tensor that is made or being made; several threads may bring at once."""
    return _copied(there, _marked(there))


def _marked(there: Tensor) -> torch.cuda.Event | None:
    """Mark where, in the order of the device's work, the tensor is made."""
    if not there.is_cuda:
        return None
    made = torch.cuda.Event()  # type: ignore[no-untyped-call]
    with torch.cuda.device(there.device):
        made.record()
    return made


def _copied(there: Tensor, made: torch.cuda.Event | None) -> Tensor:
    """Return a copy on the processor, made beside the device's other work, which else would wait behind it."""
    copy = torch.empty(there.shape, dtype=there.dtype)
    if made is None:
        return copy.copy_(there)
    into = _bytes(copy)
    with torch.cuda.device(there.device):
        stream = torch.cuda.Stream(there.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            stream.wait_event(made)
            for part, wait in _passed_on(_bytes(there)):
                np.copyto(into[part].numpy(), wait().numpy())  # PyTorch would call threads for each of several
    return copy  # all of it has come: who lets the tensor go takes nothing away


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _passed_on(come: Tensor) -> Iterator[tuple[slice, Callable[[], Tensor]]]:
    """Yield which bytes come, and what waits for it in pinned memory; the next is on its way already.

    A plain copy of so much would hold the driver, and every other thread that wants something of the device.
    """
    rooms = [torch.empty(min(BLOCK, len(come)), dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    before: tuple[slice, Callable[[], Tensor]] | None = None
    for number, start in enumerate(range(0, len(come), BLOCK)):
        part = slice(start, min(start + BLOCK, len(come)))
        room = rooms[number % 2][: part.stop - part.start]
        room.copy_(come[part], non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        if before is not None:
            yield before
        before = part, partial(_waited, done, room)
    if before is not None:
        yield before


def _waited(done: torch.cuda.Event, room: Tensor) -> Tensor:
    done.synchronize()
    return room
