"""A safetensors file written straight from the tensors' memory, its checksum taken on the way.

The layout is that of the safetensors library, byte for byte; reading is left to it. Its own writer takes twice as
long for gigabytes, and the file would have to be read again for the checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

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


def write_safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Write the tensors, and return the file's checksum. Those in memory are not copied."""
    rank = {dtype: number for number, dtype in enumerate(TYPES)}
    order = sorted(tensors, key=lambda name: (rank[tensors[name].dtype], name.encode()))
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    at = 0
    for name in order:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    head = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % ALIGNED)
    found = Crc32()
    with path.open("wb", buffering=0) as stream:
        for piece in (len(head).to_bytes(8, "little"), head):
            found.add(piece)
            stream.write(piece)
        for name in order:
            whole = _bytes(tensors[name])
            for start in range(0, len(whole), PIECE):
                piece_ = whole[start : start + PIECE]
                found.add(piece_)
                _write(stream.fileno(), piece_)
    return found.told()


def _bytes(tensor: Tensor) -> memoryview:
    """Return the tensor's memory, of a copy only where it lies on a device or is not in one piece."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _write(file: int, piece: memoryview) -> None:
    """Write all of the piece: the system may take less at a time."""
    while len(piece):
        piece = piece[os.write(file, piece) :]
