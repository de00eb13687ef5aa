"""Triton if it is installed. Otherwise kernels are functions that are never called."""

# mypy: ignore-errors

from __future__ import annotations

import os

from torch import Tensor

try:
    import triton
    import triton.language as tl
    from triton import jit
except ImportError:
    triton = tl = None

    def jit(function=None, **options):
        """Return the function unchanged."""
        return function or jit


INTERPRETED = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"


def can_launch(tensor: Tensor) -> bool:
    """Return whether kernels can run where the tensor is: on a GPU, or on the CPU with TRITON_INTERPRET=1."""
    return triton is not None and (tensor.is_cuda or INTERPRETED)


__all__ = ["INTERPRETED", "can_launch", "jit", "tl", "triton"]
