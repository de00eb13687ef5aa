"""How many tokens go through the model at a time, where nobody says."""

from __future__ import annotations

import torch

PROCESSOR = 4096
UNSEEN = 2**17  # on a GPU of another machine
LEAST, MOST = 2**12, 2**19
SHARE = 100
"""The states of a batch in half precision take this part of a GPU's memory; a block holds fifteen times that."""


def batch_tokens(device: str, dim: int) -> int:
    """Return a power of two: on a GPU as many as there is room for, since starting its work takes time too."""
    if device.partition(":")[0] != "cuda":
        return PROCESSOR
    if not torch.cuda.is_available():
        return UNSEEN
    return fitting(torch.cuda.get_device_properties(device).total_memory, dim)


def fitting(memory: int, dim: int) -> int:
    """Return how many tokens fit in so many bytes.

    >>> fitting(141 * 2**30, 768), fitting(141 * 2**30, 4096), fitting(24 * 2**30, 768)
    (524288, 131072, 131072)
    """
    tokens = memory // (SHARE * 2 * dim)
    return max(LEAST, min(MOST, 1 << max(tokens.bit_length() - 1, 0)))
