"""A safetensors file written straight from the tensors' memory, its checksum taken on the way.

The layout is that of the safetensors library, byte for byte; reading is left to it. Its own writer takes twice as
long for gigabytes, and the file would have to be read again for the checksum.
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

from theodolite.statistics.away import Away, here
from theodolite.surveys.crc import PIECE, Crc32

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
"""In the order in which tensors of each are written: the widest first, so that all are aligned."""
ALIGNED = 8
FLUSHED = 1 << 28
"""Bytes after which a flush is begun."""


def write_safetensors(path: Path, tensors: Mapping[str, Tensor | Away], metadata: Mapping[str, str]) -> str:
    """Write the tensors, and return the file's checksum. Those in memory are not copied.

    Those that are away are waited for when their turn has come: meanwhile the ones before are written.
    """
    rank = {dtype: number for number, dtype in enumerate(TYPES)}
    order = sorted(tensors, key=lambda name: (rank[tensors[name].dtype], name.encode()))
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    at = 0
    for name in order:
        tensor = tensors[name]
        end = at + tensor.nbytes
        entries[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    head = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % ALIGNED)
    found = Crc32()
    with path.open("wb", buffering=0) as stream, _Flushing(stream.fileno()) as flushing:
        for piece in (len(head).to_bytes(8, "little"), head):
            found.add(piece)
            stream.write(piece)
        for name in order:
            whole = _bytes(here(tensors[name]))
            for start in range(0, len(whole), PIECE):
                found.add(whole[start : start + PIECE])
            _write(stream.fileno(), whole)
            flushing.add(len(whole))
    return found.told()


class _Flushing:
    """Sends what has been written to the disk meanwhile: left to the end, all of it would be waited for there."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1, "flushing")
        self._begun: list[Future[None]] = []
        self._waiting = 0

    def add(self, count: int) -> None:
        """Count bytes that were written, and flush when they are many."""
        self._waiting += count
        if self._waiting >= FLUSHED:
            self._begun.append(self._pool.submit(getattr(os, "fdatasync", os.fsync), self._file))
            self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()
        for one in self._begun:  # the system tells of a failure once
            one.result()


def _bytes(tensor: Tensor) -> memoryview:
    """Return the tensor's memory, of a copy only where it lies on a device or is not in one piece."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _write(file: int, piece: memoryview) -> None:
    """Write all of the piece: the system may take less at a time, 2 GB at the most."""
    while len(piece):
        piece = piece[os.write(file, piece) :]
