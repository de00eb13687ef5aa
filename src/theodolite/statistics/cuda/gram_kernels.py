"""Triton kernels that compute the partial Gram matrices of a batch and add them."""

# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from theodolite.optional_triton import jit, tl, triton
from theodolite.statistics.cuda import gram
from theodolite.statistics.cuda.gram import HALF, GramFormat

TALL, BROAD, DEEP = 128, 128, 64  # the height and width of a block of products, and the rows multiplied at a time
WARPS, STAGES = 4, 3
MOST_REMAINDERS = 64  # that are multiplied beside the blocks of the last column; more by the library
HIGH, WIDE, ADD_WARPS, ADD_STAGES = 2, 128, 2, 4  # products added at a time, and prefetched
CHUNKS, REMAINDERS, REMAINDER_STAGES = 16, 32, 3  # the same for products with remainders
VARYING = ["rows", "chunks"]  # from batch to batch: must not trigger another compilation


def products(rows: Tensor, remainders: Tensor) -> tuple[Tensor, Tensor]:
    """Do the same as `reference.products`, only for blocks on and above the diagonal."""
    count, length, dim = rows.shape
    extra = remainders.shape[2]
    if rows.dtype not in HALF or dim < TALL:
        return gram.products(rows, remainders)
    partial = torch.empty(count, dim, dim, dtype=torch.float32, device=rows.device)
    together = 0 < extra <= MOST_REMAINDERS
    if together:
        with_remainders = torch.empty(count, dim, extra, dtype=torch.float32, device=rows.device)
    else:
        with_remainders = gram.multiply(rows, remainders)
    inner, last = _tiles(dim, rows.device)
    for tiles, columns in ((inner, 0), (last, max(triton.next_power_of_2(extra), 16) if together else 0)):
        if len(tiles):
            _gram_kernel[(len(tiles), count)](
                rows, remainders, partial, with_remainders, tiles, length, dim, extra, EVEN=dim % BROAD == 0,
                EXTRA=columns, TALL=TALL, BROAD=BROAD, DEEP=DEEP, num_warps=WARPS, num_stages=STAGES,
            )  # fmt: skip
    return partial, with_remainders


@cache
def _tiles(dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the blocks on and above the diagonal, (blocks, 2) int32: first all but those of the last column."""
    down, across = triton.cdiv(dim, TALL), triton.cdiv(dim, BROAD)
    tiles = [(i, j) for i in range(down) for j in range(across) if (j + 1) * BROAD > i * TALL]
    inner = [tile for tile in tiles if tile[1] < across - 1]
    last = [tile for tile in tiles if tile[1] == across - 1]
    return tuple(torch.tensor(some, dtype=torch.int32).view(-1, 2).to(device) for some in (inner, last))


def add_products(
    matrix: Tensor,
    partial: Tensor,
    with_remainders: Tensor,
    n: Tensor,
    by_coordinate: Tensor,
    gram_format: GramFormat,
    last: bool,
) -> None:
    """Do the same as `reference.add_products`, in one pass over the partial products."""
    chunks, dim, _ = partial.shape
    extra = gram_format.extra
    remainder = torch.empty(dim, max(extra, 1), dtype=torch.float64, device=matrix.device)
    if extra:
        _remainder_kernel[(triton.cdiv(dim * extra, REMAINDERS),)](
            with_remainders, remainder, chunks, dim * extra,
            CHUNKS=CHUNKS, BLOCK=REMAINDERS, STAGES=REMAINDER_STAGES, num_warps=1,
        )  # fmt: skip
    _add_kernel[(triton.cdiv(dim, HIGH), triton.cdiv(dim, WIDE))](
        matrix, partial, remainder, n, by_coordinate, gram_format.centre, gram_format.remainder, chunks, dim,
        extra, EXTRA=extra > 0, LAST=last, HIGH=HIGH, WIDE=WIDE, STAGES=ADD_STAGES, num_warps=ADD_WARPS,
    )  # fmt: skip


@jit(do_not_specialize=VARYING)
def _gram_kernel(
    rows_to_multiply,
    remainders,
    partial,
    with_remainders,
    tiles,
    rows,
    dim,
    extra,
    EVEN: tl.constexpr,
    EXTRA: tl.constexpr,
    TALL: tl.constexpr,
    BROAD: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Multiply one block of a chunk and, if EXTRA is not 0, the left columns with the remainders."""
    down = tl.load(tiles + 2 * tl.program_id(0))
    across = tl.load(tiles + 2 * tl.program_id(0) + 1)
    chunk = tl.program_id(1).to(tl.int64)
    i = down * TALL + tl.arange(0, TALL)
    j = across * BROAD + tl.arange(0, BROAD)
    row = chunk * rows + tl.arange(0, DEEP)
    left = rows_to_multiply + row[:, None] * dim + i[None, :]
    right = rows_to_multiply + row[:, None] * dim + j[None, :]
    total = tl.zeros([TALL, BROAD], tl.float32)
    if EXTRA:
        e = tl.arange(0, EXTRA)
        beside = remainders + row[:, None] * extra + e[None, :]
        with_extra = tl.zeros([TALL, EXTRA], tl.float32)
    for _ in range(0, rows // DEEP):
        if EVEN:
            a = tl.load(left)
            b = tl.load(right)
        else:
            a = tl.load(left, mask=(i < dim)[None, :], other=0.0)
            b = tl.load(right, mask=(j < dim)[None, :], other=0.0)
        total = tl.dot(tl.trans(a), b, total)
        left += DEEP * dim
        right += DEEP * dim
        if EXTRA:
            with_extra = tl.dot(tl.trans(a), tl.load(beside, mask=(e < extra)[None, :], other=0.0), with_extra)
            beside += DEEP * extra
    into = partial + (chunk * dim + i)[:, None] * dim
    tl.store(into + j[None, :], total, mask=(i < dim)[:, None] & (j < dim)[None, :])
    if EXTRA:
        into = with_remainders + (chunk * dim + i)[:, None] * extra
        tl.store(into + e[None, :], with_extra, mask=(i < dim)[:, None] & (e < extra)[None, :])


@jit(do_not_specialize=VARYING)
def _remainder_kernel(
    with_remainders, remainder, chunks, size, CHUNKS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    """Add the products with remainders over all chunks. (chunks, size) -> (size,)"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for first in tl.range(0, chunks, CHUNKS, num_stages=STAGES):
        chunk = first + tl.arange(0, CHUNKS)
        held = (chunk < chunks)[:, None] & (at < size)[None, :]
        place = with_remainders + chunk.to(tl.int64)[:, None] * size + at[None, :]
        total += tl.sum(tl.load(place, mask=held, other=0.0).to(tl.float64), 0)
    tl.store(remainder + at, total, mask=at < size)


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
    extra,
    EXTRA: tl.constexpr,
    LAST: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    STAGES: tl.constexpr,
):
    i = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
    j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    if tl.program_id(0) * HIGH < (tl.program_id(1) + 1) * WIDE:
        inside = (i < dim)[:, None] & (j < dim)[None, :]
        held = inside & (i[:, None] <= j[None, :])
        place = i[:, None] * dim + j[None, :]
        size = tl.cast(dim, tl.int64) * dim
        total = tl.zeros([HIGH, WIDE], tl.float64)
        for chunk in tl.range(0, chunks, num_stages=STAGES):  # below the diagonal too: whole lines are loaded
            total += tl.load(partial + chunk * size + place, mask=inside, other=0.0).to(tl.float64)
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
        into = matrix + place
        tl.store(into, tl.load(into, mask=held, other=0.0) + total, mask=held)
