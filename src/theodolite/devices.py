"""Copies between the CPU and a GPU that do not make either wait, and tensors that are still on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from theodolite.half_precision import exact_dtype

BLOCK = 2**23  # bytes copied at a time
AHEAD, BEHIND = -1, 0
"""Priorities of streams. A few long kernels at a time go behind many short ones, which would otherwise wait for a
long one each."""


class DeviceTensor:
    """A tensor on a device, copied to the CPU when it is first read and then freed.

    To measure it on the device, keep a reference to `on_device` before it is copied. With `narrow`, a float32
    tensor is copied in half precision if that loses nothing, see `exact_dtype`.
    """

    def __init__(self, tensor: Tensor, *, narrow: bool = False) -> None:
        self.shape = tensor.shape
        self._dtype = None if narrow and tensor.dtype == torch.float32 else tensor.dtype
        self._tensor: Tensor | None = tensor
        self._ready = _record_event(tensor)
        self._copy: Tensor | None = None
        self._lock = threading.RLock()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the copy; known without waiting, unless the values decide."""
        if self._dtype is None:
            with self._lock:
                if self._dtype is None:
                    assert self._tensor is not None
                    self._dtype = _find_exact_dtype(self._tensor, self._ready)
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.shape.numel() * self.dtype.itemsize

    @property
    def on_device(self) -> Tensor | None:
        """The tensor on its device; None once it has been copied."""
        return self._tensor

    def lend(self) -> Tensor | None:
        """Return the tensor on its device, to be read on the current stream; None once it has been copied.

        Another thread may copy it and free it at any time: its memory is not used again before this stream has
        read it.
        """
        if (held := self._tensor) is not None and held.is_cuda:
            held.record_stream(torch.cuda.current_stream(held.device))
        return held

    def cpu(self) -> Tensor:
        """Return the copy on the CPU; other threads that ask for it at the same time wait."""
        with self._lock:
            if self._copy is None:
                assert self._tensor is not None
                self._copy = _copy_from_device(self._tensor, self._ready, self.dtype)
                self._tensor = self._ready = None
            return self._copy


def to_cpu(value: Tensor | DeviceTensor) -> Tensor:
    """Return a tensor on the CPU, copied from its device if necessary."""
    return value.cpu() if isinstance(value, DeviceTensor) else value


def read_on(value: Tensor | DeviceTensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; one that is still on that device is not copied."""
    held = value.lend() if isinstance(value, DeviceTensor) and device.type != "cpu" else None
    return to_device(to_cpu(value), device) if held is None else held.to(device)


def read_where_it_is(value: Tensor | DeviceTensor) -> Tensor:
    """Return a tensor on its device or, if it has been copied, on the CPU."""
    held = value.lend() if isinstance(value, DeviceTensor) else None
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


def _copy_from_device(tensor: Tensor, ready: torch.cuda.Event | None, dtype: torch.dtype | None = None) -> Tensor:
    """Return a copy on the CPU, made on another stream so that other work does not wait for it.

    With a `dtype`, the tensor is converted on the device, and only the bytes of that type are copied.
    """
    copy = torch.empty(tensor.shape, dtype=dtype or tensor.dtype)
    if ready is None:
        return copy.copy_(tensor)
    target, start = copy.view(-1).view(torch.uint8), 0
    try:
        with _copying_stream(tensor.device, ready, converts=copy.dtype != tensor.dtype):
            for wait in _iterate_pinned(_iterate_bytes(tensor, copy.dtype), min(BLOCK, len(target))):
                block = wait().numpy()
                np.copyto(target[start : start + len(block)].numpy(), block)  # PyTorch would start threads
                start += len(block)
    except torch.OutOfMemoryError:
        if copy.dtype == tensor.dtype:
            raise
        return _copy_from_device(tensor, ready).to(copy.dtype)
    return copy  # complete: the tensor may now be freed


def _find_exact_dtype(tensor: Tensor, ready: torch.cuda.Event | None) -> torch.dtype:
    """Return the result of `exact_dtype`, found on the tensor's device."""
    if ready is None:
        return exact_dtype(tensor)
    try:
        with _copying_stream(tensor.device, ready, converts=True):
            return exact_dtype(tensor)
    except torch.OutOfMemoryError:
        return exact_dtype(_copy_from_device(tensor, ready))


@contextmanager
def _copying_stream(device: torch.device, ready: torch.cuda.Event, *, converts: bool) -> Iterator[None]:
    """Work on a stream of its own when the tensor is complete.

    Conversions share a stream: PyTorch does not use the memory that was freed on one stream for another.
    """
    with torch.cuda.device(device):
        stream = _conversion_stream(device) if converts else torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            stream.wait_event(ready)
            yield


@cache
def _conversion_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority=AHEAD)  # type: ignore[no-untyped-call]


def _iterate_bytes(tensor: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield the bytes of the tensor in this type, a block at a time; only a block is converted at a time."""
    values = tensor.contiguous().view(-1)
    count = BLOCK // values.itemsize
    for start in range(0, len(values), count):
        yield values[start : start + count].to(dtype).view(torch.uint8)


def _iterate_pinned(blocks: Iterable[Tensor], size: int) -> Iterator[Callable[[], Tensor]]:
    """Yield a function for each block that waits for it in pinned memory; the next block is already being copied.

    One plain copy of gigabytes would block the driver for every other thread that uses the device. Blocks have at
    most `size` bytes.
    """
    buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    before: Callable[[], Tensor] | None = None
    for number, block in enumerate(blocks):
        buffer = buffers[number % 2][: len(block)]
        buffer.copy_(block, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        if before is not None:
            yield before
        before = partial(_wait_for, done, buffer)
    if before is not None:
        yield before


def _wait_for(done: torch.cuda.Event, buffer: Tensor) -> Tensor:
    done.synchronize()
    return buffer


def make_current(device: str | torch.device | None) -> AbstractContextManager[object]:
    """Make a GPU the current one in this context: Triton launches kernels there, wherever their tensors are."""
    return nullcontext() if device is None or torch.device(device).type != "cuda" else torch.cuda.device(device)


@contextmanager
def without_autocast() -> Iterator[None]:
    """Run the body in the precision of the tensors: autocast would round states and what is computed from them.

    Within training it would also keep its cast copies of the weights.
    """
    with ExitStack() as stack:
        for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps")):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device. A plain copy to a GPU would wait for its queue; this one does not."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
