"""Copies between the CPU and a GPU that do not make either wait, and tensors that are still on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

BLOCK = 2**23  # bytes copied at a time


class DeviceTensor:
    """A tensor on a device, copied to the CPU when it is first read and then freed.

    To measure it on the device, keep a reference to `on_device` before it is copied.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self._tensor: Tensor | None = tensor
        self._ready = _record_event(tensor)
        self._copy: Tensor | None = None
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.shape.numel() * self.dtype.itemsize

    @property
    def on_device(self) -> Tensor | None:
        """The tensor on its device; None once it has been copied."""
        return self._tensor

    def cpu(self) -> Tensor:
        """Return the copy on the CPU; other threads that ask for it at the same time wait."""
        with self._lock:
            if self._copy is None:
                assert self._tensor is not None
                self._copy = _copy_from_device(self._tensor, self._ready)
                self._tensor = self._ready = None
            return self._copy


def to_cpu(value: Tensor | DeviceTensor) -> Tensor:
    """Return a tensor on the CPU, copied from its device if necessary."""
    return value.cpu() if isinstance(value, DeviceTensor) else value


def read_on(value: Tensor | DeviceTensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; one that is still on that device is not copied."""
    held = value.on_device if isinstance(value, DeviceTensor) else None
    if held is not None and device.type != "cpu":
        return held.to(device)
    return to_device(to_cpu(value), device)


def read_where_it_is(value: Tensor | DeviceTensor) -> Tensor:
    """Return a tensor on its device or, if it has been copied, on the CPU."""
    held = value.on_device if isinstance(value, DeviceTensor) else None
    return to_cpu(value) if held is None else held


def copy_to_cpu(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU, also of a tensor that is still being computed; safe in several threads."""
    return _copy_from_device(tensor, _record_event(tensor))


def _record_event(tensor: Tensor) -> torch.cuda.Event | None:
    """Record when, in the order of the device's work, the tensor is complete."""
    if not tensor.is_cuda:
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    with torch.cuda.device(tensor.device):
        event.record()
    return event


def _copy_from_device(tensor: Tensor, ready: torch.cuda.Event | None) -> Tensor:
    """Return a copy on the CPU, made on a stream of its own so that other work does not wait for it."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    if ready is None:
        return copy.copy_(tensor)
    target = _bytes(copy)
    with torch.cuda.device(tensor.device):
        stream = torch.cuda.Stream(tensor.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            stream.wait_event(ready)
            for part, wait in _iterate_pinned(_bytes(tensor)):
                np.copyto(target[part].numpy(), wait().numpy())  # PyTorch would start threads for every block
    return copy  # complete: the tensor may now be freed


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _iterate_pinned(source: Tensor) -> Iterator[tuple[slice, Callable[[], Tensor]]]:
    """Yield each block and a function that waits for it in pinned memory; the next block is already being copied.

    One plain copy of gigabytes would block the driver for every other thread that uses the device.
    """
    buffers = [torch.empty(min(BLOCK, len(source)), dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    before: tuple[slice, Callable[[], Tensor]] | None = None
    for number, start in enumerate(range(0, len(source), BLOCK)):
        part = slice(start, min(start + BLOCK, len(source)))
        buffer = buffers[number % 2][: part.stop - part.start]
        buffer.copy_(source[part], non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        if before is not None:
            yield before
        before = part, partial(_wait_for, done, buffer)
    if before is not None:
        yield before


def _wait_for(done: torch.cuda.Event, buffer: Tensor) -> Tensor:
    done.synchronize()
    return buffer


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device. A plain copy to a GPU would wait for its queue; this one does not."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
