"""Triton if it is installed. Otherwise kernels are functions that are never called: `reference` is used."""

# mypy: ignore-errors

from __future__ import annotations

try:
    import triton
    import triton.language as tl
    from triton import jit
except ImportError:
    triton = tl = None

    def jit(function=None, **options):
        """Return the function unchanged."""
        return function or jit


__all__ = ["jit", "tl", "triton"]
