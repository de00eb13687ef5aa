"""The default number of tokens per batch."""

from __future__ import annotations

import torch

from theodolite.sources.text.source import TextSource
from theodolite.statistics.cuda.tables import free_memory

CPU = 4096
REMOTE_GPU = 2**17  # on a GPU of another machine
LEAST, MOST = 2**12, 2**19
SHARE = 100
"""The states of a batch in half precision take 1/SHARE of the GPU memory; a block needs fifteen times that."""


BLOCK, HELD_SHARE = 15, 0.25
"""What a block needs, in states of the batch, and the share of the GPU memory for it and for held states."""


def choose_batch_tokens(device: str, source: TextSource, holds: int) -> int:
    """Return the default for a source whose model is loaded: on GPUs as many as fit on each of them.

    `holds` copies of the states of all layers of a batch are held, each on its device, until its sinks are known.
    """
    layers = [(str(source.devices.get(layer.index, device)), layer.dim) for layer in source.layers]
    on_gpus = sorted({name for name, _ in layers if name.startswith("cuda")}) or [device]
    return min(
        batch_tokens(
            name,
            max(layer.dim for layer in source.layers),
            holds * sum(where == name or len(on_gpus) == 1 for where, _ in layers),
        )
        for name in on_gpus
    )


def batch_tokens(device: str, dim: int, held: int = 0) -> int:
    """Return a power of two: on a GPU as many as fit in what is free, since every launch takes time.

    `held` layers of each batch are held until its sinks are known.
    """
    if device.partition(":")[0] != "cuda":
        return CPU
    if not torch.cuda.is_available():
        return REMOTE_GPU
    return fitting(free_memory(device)[0], dim, held)


def fitting(memory: int, dim: int, held: int = 0) -> int:
    """Return how many tokens fit in this many bytes, with the states of `held` layers.

    >>> fitting(141 * 2**30, 768), fitting(141 * 2**30, 4096), fitting(24 * 2**30, 768)
    (524288, 131072, 131072)
    >>> fitting(141 * 2**30, 768, 14), fitting(141 * 2**30, 4096, 34), fitting(24 * 2**30, 768, 14)
    (524288, 65536, 131072)
    """
    tokens = min(memory // (SHARE * 2 * dim), int(HELD_SHARE * memory) // (2 * dim * (BLOCK + held)))
    return max(LEAST, min(MOST, 1 << max(tokens.bit_length() - 1, 0)))
