"""A writer of safetensors files that computes the checksum while it writes.

The file is equal to that of the safetensors library, byte for byte, and is read with that library. It is written
by hand because the library's writer takes twice as long for gigabytes, cannot wait for tensors that are still on
a device, and would need a second pass for the checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from theodolite.devices import DeviceTensor, to_cpu
from theodolite.half_precision import exact_dtype
from theodolite.storage.checksum import PIECE, Checksum

TYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""In the order in which tensors are written: the widest type first, so that all are aligned."""
ALIGNMENT = 8
FLUSH_BYTES = 1 << 28
"""Bytes after which a flush to disk starts."""


def write_safetensors(
    path: Path,
    tensors: Mapping[str, Tensor | DeviceTensor],
    metadata: Mapping[str, str],
    *,
    narrow: bool = False,
) -> str:
    """Write the tensors without copying those in memory, and return the checksum of the file.

    Tensors on a device are waited for only when they are written, after the ones before them. With `narrow`,
    float32 tensors are written in half precision if that loses nothing; each is converted when it is written.
    """
    dtypes = {
        name: exact_dtype(tensor) if narrow and isinstance(tensor, Tensor) else tensor.dtype
        for name, tensor in tensors.items()
    }
    rank = {dtype: number for number, dtype in enumerate(TYPES)}
    order = sorted(tensors, key=lambda name: (rank[dtypes[name]], name.encode()))
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    at = 0
    for name in order:
        shape, dtype = tensors[name].shape, dtypes[name]
        end = at + shape.numel() * dtype.itemsize
        entries[name] = {"dtype": TYPES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    total = Checksum()
    with path.open("wb", buffering=0) as stream, _Flusher(stream.fileno()) as flusher:
        for piece in (len(header).to_bytes(8, "little"), header):
            total.add(piece)
            stream.write(piece)
        for name in order:
            content = _bytes(to_cpu(tensors[name]).to(dtypes[name]))
            for start in range(0, len(content), PIECE):
                total.add(content[start : start + PIECE])
            _write(stream.fileno(), content)
            flusher.add(len(content))
    return total.result()


class _Flusher:
    """Flushes to disk in the background while more is written, instead of everything at the end."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1, "flushing")
        self._flushes: list[Future[None]] = []
        self._unflushed = 0

    def add(self, count: int) -> None:
        """Count written bytes, and start a flush if there are many."""
        self._unflushed += count
        if self._unflushed >= FLUSH_BYTES:
            self._flushes.append(self._pool.submit(getattr(os, "fdatasync", os.fsync), self._file))
            self._unflushed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()
        for flush in self._flushes:  # the system reports an error only once
            flush.result()


def _bytes(tensor: Tensor) -> memoryview:
    """Return the tensor's memory; copied only if it is on a device or not contiguous."""
    if not tensor.numel():
        return memoryview(b"")  # an empty array of NumPy has a stride of 0, which cannot be viewed as bytes
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _write(file: int, piece: memoryview) -> None:
    """Write all of the piece; the system writes at most 2 GB per call."""
    while len(piece):
        piece = piece[os.write(file, piece) :]
