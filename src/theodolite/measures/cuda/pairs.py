"""Distances of pairs of vectors on a GPU, in one pass: PyTorch copies both vectors of each pair to float64."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, index, untyped-decorator"

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.optional_triton import can_launch, jit, tl

BLOCK = 1024
"""Coordinates subtracted at a time."""


def is_supported(vectors: Tensor) -> bool:
    """Return whether the kernel can be used."""
    return can_launch(vectors) and vectors.stride(1) == 1


def squared_distances(vectors: Tensor, scale: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return |x - y|^2 / scale^2 of pairs of rows, by subtraction in float64. (n, dim), (pairs,) -> (pairs,)"""
    found = torch.empty(len(left), dtype=torch.float64, device=vectors.device)
    if len(left):
        _pair_kernel[(len(left),)](
            vectors, vectors.stride(0), scale, left.contiguous(), right.contiguous(), found, vectors.shape[1],
            BLOCK=BLOCK,
        )  # fmt: skip
    return found


@jit
def _pair_kernel(vectors, stride, scale, left, right, found, dim, BLOCK: tl.constexpr):
    pair = tl.program_id(0)
    one = vectors + tl.load(left + pair) * stride
    other = vectors + tl.load(right + pair) * stride
    unit = tl.load(scale)
    total = tl.zeros([BLOCK], tl.float64)
    for start in range(0, dim, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < dim
        x = tl.load(one + columns, mask=inside, other=0.0).to(tl.float64)
        less = x - tl.load(other + columns, mask=inside, other=0.0).to(tl.float64)
        less /= unit  # before it is squared: no square overflows
        total += less * less
    tl.store(found + pair, tl.sum(total, 0))
