"""Hashes of tensors and of the weights of a model, computed on their devices: copying large ones takes seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.hashing import mix
from theodolite.models.device_map import load_offloaded

HASHING_THREADS = 8
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What the description of an object says of its place in memory, which is another one in every process."""

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


def tensors_sha256(network: nn.Module, *, omit: tuple[str, ...] = ()) -> str:
    """Return the sha256 of the names, types and hashed numbers of all tensors of a model, computed in parallel.

    It does not depend on the devices of the tensors, on whether parts are compiled, nor on tensors whose names
    start with one of `omit`.
    """

    def hash_module(named: tuple[str, nn.Module]) -> list[tuple[str, str]]:
        name, module = named
        prefix = f"{name.replace('_orig_mod', '')}.".replace("..", ".").lstrip(".")
        with torch.no_grad(), load_offloaded(module):
            return [(key, _hash_value(value)) for key, value in _own_tensors(module, prefix)]

    with ThreadPoolExecutor(HASHING_THREADS, "hashing") as pool:
        found = sorted(line for lines in pool.map(hash_module, network.named_modules()) for line in lines)
    found = [line for line in found if not line[0].startswith(omit)]
    return sha256("".join(f"{name} {digest}\n" for name, digest in found).encode()).hexdigest()


def quant_state(weight: Any) -> Any:
    """Return the scales of a weight that bitsandbytes quantized to 4 bits, or None."""
    return getattr(weight, "quant_state", None)


def _own_tensors(module: nn.Module, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module adds to its state_dict, and change nothing.

    That of a 4-bit module of bitsandbytes is written here, because its own function first restores a weight that
    was packed for the CPU, and the model computes something else afterwards (version 0.50).
    """
    own: dict[str, Any] = {}
    scales = quant_state(module._parameters.get("weight"))  # its own: layers of PEFT also show that of their base
    if scales is None:
        module._save_to_state_dict(own, prefix, False)
    else:
        nn.Module._save_to_state_dict(module, own, prefix, False)
        own |= {f"{prefix}weight.{name}": value for name, value in scales.as_dict(packed=True).items()}
    yield from own.items()


def _hash_value(value: Any) -> str:
    """Return the sha256 of a value: type, shape and hash of a tensor, or what a quantized one consists of."""
    if isinstance(value, tuple | list):
        return sha256("".join(map(_hash_value, value)).encode()).hexdigest()
    if not isinstance(value, Tensor):
        return sha256(ADDRESS.sub("", repr(value)).encode()).hexdigest()
    if hasattr(value, "__tensor_flatten__"):  # a subclass, such as the quantized tensors of torchao
        names, context = value.__tensor_flatten__()
        return _hash_value([*names, *(getattr(value, name) for name in names), context])
    if value.is_quantized:
        value = value.dequantize()
    digest = sha256(f"{value.dtype} {tuple(value.shape)} ".encode())
    digest.update(hash_tensor(value))
    return digest.hexdigest()
