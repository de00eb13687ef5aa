"""Things sent from process to process: arrays lie in memory that both see, and the pipe carries but a handle.

What a pipe carries is copied twice by each side, a fraction of a megabyte at a time, while the interpreter waits.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, pairwise
from mmap import mmap
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, TypeAlias

import torch
from torch import Tensor

Pipe: TypeAlias = "Connection[Any, Any]"
ALIGNED = 64  # bytes: where an array may begin


def can_send() -> bool:
    """Say whether this system has memory that goes by a handle."""
    return hasattr(os, "memfd_create")


def packed(thing: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return what `send` takes: the thing without its arrays, and these."""
    file, arrays = BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, protocol=5, buffer_callback=arrays.append).dump(thing)
    return file.getvalue(), arrays


def send(pipe: Pipe, form: bytes, arrays: Sequence[pickle.PickleBuffer]) -> None:
    """Send what is packed to the process at the other end of a pipe with two ways."""
    views = [array.raw() for array in arrays]
    sizes = [view.nbytes for view in views]
    pipe.send_bytes(pickle.dumps((form, sizes)))
    if not any(sizes):
        return
    handle = os.memfd_create("theodolite")
    try:
        for view, (start, _) in zip(views, _bounds(sizes), strict=True):
            while view.nbytes:
                written = os.pwrite(handle, view, start)
                view, start = view[written:], start + written
        send_handle(pipe, handle, None)  # who takes it matters on Windows alone
    finally:
        os.close(handle)


def received(pipe: Pipe) -> Any:
    """Return what the process at the other end sends. Its arrays may be written to; nobody else sees it."""
    form, sizes = pickle.loads(pipe.recv_bytes())
    if not any(sizes):
        return pickle.loads(form, buffers=[bytearray() for _ in sizes])
    handle = recv_handle(pipe)
    try:
        memory = memoryview(mmap(handle, 0))
    finally:
        os.close(handle)
    return pickle.loads(form, buffers=[memory[start:stop] for start, stop in _bounds(sizes)])


def _bounds(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield where arrays of so many bytes begin and end."""
    begins = accumulate((-(-size // ALIGNED) * ALIGNED for size in sizes), initial=0)
    for size, (start, _) in zip(sizes, pairwise(begins), strict=True):
        yield start, start + size


class _Pickler(pickle.Pickler):
    """Writes tensors as arrays: PyTorch's own way, shared memory, fails where a container has little of it."""

    def reducer_override(self, obj: Any) -> Any:
        return (torch.from_numpy, (obj.numpy(),)) if isinstance(obj, Tensor) else NotImplemented
