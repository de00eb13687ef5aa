"""Half precision where it loses nothing: states of a model in half precision are float32 vectors in memory."""

from __future__ import annotations

import torch
from torch import Tensor

HALVES = (torch.bfloat16, torch.float16)
FIRST = 2**12
"""Values checked before all others: of states in single precision, nearly every value has more digits."""
BLOCK, GPU_BLOCK = 2**21, 2**25
"""Values checked at a time: a few megabytes, and 200 on a GPU, where many steps take longer."""


def exact_dtype(tensor: Tensor) -> torch.dtype:
    """Return the type of 16 bits that represents every value of a float32 tensor exactly, or else float32.

    Other tensors keep their type. The result depends on the values only. On a GPU this waits for the device.

    >>> exact_dtype(torch.tensor([-0.0, 1.5, 2.0**100]))
    torch.bfloat16
    >>> exact_dtype(torch.tensor([-0.0, 1 + 2.0**-10]))
    torch.float16
    >>> exact_dtype(torch.tensor([0.1]))
    torch.float32
    """
    if tensor.dtype != torch.float32 or not tensor.numel():
        return tensor.dtype
    values, size = tensor.reshape(-1), GPU_BLOCK if tensor.is_cuda else BLOCK
    for half in HALVES:
        if _is_exact(values[:FIRST], half) and all(_is_exact(part, half) for part in torch.split(values, size)):
            return half
    return tensor.dtype


def widen(tensor: Tensor) -> Tensor:
    """Return a tensor of 16-bit numbers in float32, which has all their values; others are returned unchanged."""
    return tensor.float() if tensor.dtype in HALVES else tensor


def _is_exact(values: Tensor, half: torch.dtype) -> bool:
    """Return whether the values are the same after a conversion to half precision and back.

    Bits are compared, not numbers: of numbers, -0 equals 0 and denormal ones may be taken for 0.
    """
    return torch.equal(values.to(half).float().view(torch.int32), values.view(torch.int32))
