"""A hash of a tensor's bytes, computed on its device: copying the weights of a large model would take seconds."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from theodolite.hashing import mix

WORDS = 2**16
"""64-bit words of a chunk."""
DEVICE_CHUNKS = 256
"""Chunks at a time on a device: 128 MB, and twice as much for intermediate results."""
_LOW = 2**32 - 1
_ALIGNMENT = 8


def hash_tensor(tensor: Tensor) -> bytes:
    """Return 16 bytes for each 512 KiB of a tensor, which change if one of its bits does; the same on any device.

    Two sums modulo 2^64 of the words of a chunk, each multiplied by an odd constant of its own. Two tensors that
    differ in several words have the same hash with a probability of about 2^-128. Not for secrets.
    """
    # A tensor of one element is contiguous with any stride, but only with 1 has it bytes.
    data = tensor.detach().contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    whole = len(data) // (_ALIGNMENT * WORDS) * _ALIGNMENT * WORDS
    sums = [_sum_words(part) for part in _blocks(data[:whole])]
    if len(data) > whole:
        last = data.new_zeros(_ALIGNMENT * WORDS)
        last[: len(data) - whole] = data[whole:]
        sums.append(_sum_words(last))
    return b"".join(part.cpu().numpy().tobytes() for part in sums)


def _blocks(data: Tensor) -> tuple[Tensor, ...]:
    if data.storage_offset() % _ALIGNMENT:
        data = data.clone()
    count = 1 if data.device.type == "cpu" else DEVICE_CHUNKS  # a chunk stays in the cache of a processor
    return torch.split(data, _ALIGNMENT * WORDS * count) if len(data) else ()


def _sum_words(data: Tensor) -> Tensor:
    """Return two sums for each chunk. (8 words,) uint8 -> (chunks, 2) int64"""
    words = data.view(torch.int64).view(-1, WORDS)
    # A product modulo 2^64 of a word with empty low bits has them too: half of each word is mixed into the other.
    words = words ^ ((words >> 32) & _LOW)
    return torch.stack([(words * factors).sum(1) for factors in _factors(words.device)], 1)


@cache
def _factors(device: torch.device) -> tuple[Tensor, ...]:
    odd = (mix(salt, np.arange(WORDS)) | np.uint64(1) for salt in (1, 2))
    return tuple(torch.from_numpy(each.view(np.int64)).to(device) for each in odd)
