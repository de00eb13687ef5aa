"""Triton, where it is: elsewhere kernels are plain functions that nobody calls, and `plain` does the same."""

# mypy: ignore-errors

from __future__ import annotations

try:
    import triton
    import triton.language as tl
    from triton import jit
except ImportError:
    triton = tl = None

    def jit(function=None, **options):
        """Leave a kernel as it is."""
        return function or jit


__all__ = ["jit", "tl", "triton"]
