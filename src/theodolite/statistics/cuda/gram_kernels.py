"""Triton kernels that compute the partial Gram matrices of a batch and add them."""

# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from theodolite.optional_triton import jit, tl, triton
from theodolite.statistics.cuda import gram
from theodolite.statistics.cuda.gram import HALF, GramFormat

TALL, BROAD, DEEP = 128, 256, 64  # the height and width of a block of products, and the rows multiplied at a time
WARPS, STAGES = 8, 3
HIGH, WIDE, ADD_WARPS = 2, 128, 2  # products added at a time
VARYING = ["rows", "chunks"]  # from batch to batch: must not trigger another compilation


def products(chunks: Tensor, gram_format: GramFormat) -> Tensor:
    """Do the same as `reference.products`, only for blocks on and above the diagonal."""
    count, rows, width = chunks.shape
    dim = gram_format.dim
    if gram_format.dtype not in HALF or dim < TALL:
        return gram.products(chunks, gram_format)
    partial = torch.empty(count, dim, width, dtype=torch.float32, device=chunks.device)
    tiles = _tiles(dim, chunks.device)
    _gram_kernel[(len(tiles), count)](
        chunks, partial, tiles, rows, dim, width, EVEN=dim % BROAD == 0,
        TALL=TALL, BROAD=BROAD, DEEP=DEEP, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    if gram_format.extra:  # a kernel for both takes a sixth longer
        left = chunks[:, :, :dim].transpose(1, 2)
        partial[:, :, dim:] = gram.multiply(left, chunks[:, :, dim:])
    return partial


@cache
def _tiles(dim: int, device: torch.device) -> Tensor:
    """Return the blocks on and above the diagonal. (blocks, 2) int32"""
    down, across = triton.cdiv(dim, TALL), triton.cdiv(dim, BROAD)
    tiles = [(i, j) for i in range(down) for j in range(across) if (j + 1) * BROAD > i * TALL]
    return torch.tensor(tiles, dtype=torch.int32).to(device)


def add_products(
    matrix: Tensor, partial: Tensor, n: Tensor, by_coordinate: Tensor, gram_format: GramFormat, last: bool
) -> None:
    """Do the same as `reference.add_products`, in one pass over the partial products."""
    chunks, dim, width = partial.shape
    remainder = torch.empty(dim, max(gram_format.extra, 1), dtype=torch.float64, device=matrix.device)
    if gram_format.extra:
        _remainder_kernel[(triton.cdiv(dim, HIGH), triton.cdiv(gram_format.extra, WIDE))](
            partial, remainder, chunks, dim, width, gram_format.extra,
            EXTRA=min(triton.next_power_of_2(gram_format.extra), WIDE), ROWS=HIGH, num_warps=1,
        )  # fmt: skip
    _add_kernel[(triton.cdiv(dim, HIGH), triton.cdiv(dim, WIDE))](
        matrix, partial, remainder, n, by_coordinate, gram_format.centre, gram_format.behind, chunks, dim, width,
        gram_format.extra, EXTRA=gram_format.extra > 0, LAST=last, HIGH=HIGH, WIDE=WIDE, num_warps=ADD_WARPS,
    )  # fmt: skip


@jit(do_not_specialize=VARYING)
def _gram_kernel(
    rows_to_multiply,
    partial,
    tiles,
    rows,
    dim,
    width,
    EVEN: tl.constexpr,
    TALL: tl.constexpr,
    BROAD: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Multiply one block of a chunk."""
    down = tl.load(tiles + 2 * tl.program_id(0))
    across = tl.load(tiles + 2 * tl.program_id(0) + 1)
    chunk = tl.program_id(1).to(tl.int64)
    i = down * TALL + tl.arange(0, TALL)
    j = across * BROAD + tl.arange(0, BROAD)
    k = tl.arange(0, DEEP)
    base = rows_to_multiply + (chunk * rows + k)[:, None] * width
    left = base + i[None, :]
    right = base + j[None, :]
    total = tl.zeros([TALL, BROAD], tl.float32)
    for _ in range(0, rows // DEEP):
        if EVEN:
            a = tl.load(left)
            b = tl.load(right)
        else:
            a = tl.load(left, mask=(i < dim)[None, :], other=0.0)
            b = tl.load(right, mask=(j < dim)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total)
        left += DEEP * width
        right += DEEP * width
    into = partial + (chunk * dim + i)[:, None] * width
    tl.store(into + j[None, :], total, mask=(i < dim)[:, None] & (j < dim)[None, :])


@jit(do_not_specialize=VARYING)
def _remainder_kernel(partial, remainder, chunks, dim, width, extra, EXTRA: tl.constexpr, ROWS: tl.constexpr):
    """Add the products with the extra columns over all chunks."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.program_id(1) * EXTRA + tl.arange(0, EXTRA)
    held = (i < dim)[:, None] & (e < extra)[None, :]
    pointer = partial + i[:, None] * width + dim + e[None, :]
    total = tl.zeros([ROWS, EXTRA], tl.float64)
    for _ in range(0, chunks):
        total += tl.load(pointer, mask=held, other=0.0).to(tl.float64)
        pointer += dim * width
    tl.store(remainder + i[:, None] * extra + e[None, :], total, mask=held)


@jit(do_not_specialize=VARYING)
def _add_kernel(
    matrix,
    partial,
    remainder,
    n,
    by_coordinate,
    centre,
    behind,
    chunks,
    dim,
    width,
    extra,
    EXTRA: tl.constexpr,
    LAST: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
):
    i = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
    j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    if tl.program_id(0) * HIGH < (tl.program_id(1) + 1) * WIDE:
        held = (i < dim)[:, None] & (j < dim)[None, :] & (i[:, None] <= j[None, :])
        size = dim * width
        pointer = partial + i[:, None] * width + j[None, :]
        total = tl.zeros([HIGH, WIDE], tl.float64)
        for _ in range(0, chunks):
            total += tl.load(pointer, mask=held, other=0.0).to(tl.float64)
            pointer += size
        if EXTRA:
            e_i = tl.load(behind + i, mask=i < dim, other=-1)
            e_j = tl.load(behind + j, mask=j < dim, other=-1)
            to_j = remainder + i[:, None] * extra + e_j[None, :]
            to_i = remainder + j[None, :] * extra + e_i[:, None]
            total += tl.load(to_j, mask=held & (e_j >= 0)[None, :], other=0.0)
            total += tl.load(to_i, mask=held & (e_i >= 0)[:, None], other=0.0)
        if LAST:
            c_i = tl.load(centre + i, mask=i < dim, other=0.0)
            c_j = tl.load(centre + j, mask=j < dim, other=0.0)
            s_i = tl.load(by_coordinate + i, mask=i < dim, other=0.0)
            s_j = tl.load(by_coordinate + j, mask=j < dim, other=0.0)
            count = tl.load(n)
            total -= c_i[:, None] * s_j[None, :] + (s_i + count * c_i)[:, None] * c_j[None, :]
            squares = tl.load(by_coordinate + 2 * dim + j, mask=j < dim, other=0.0)
            total = tl.where(i[:, None] == j[None, :], squares[None, :], total)
        else:
            total = tl.where(i[:, None] == j[None, :], 0.0, total)
        place = matrix + i[:, None].to(tl.int64) * dim + j[None, :]
        tl.store(place, tl.load(place, mask=held, other=0.0) + total, mask=held)
