"""Kernels that multiply the rows of a batch with themselves, and add the products up."""

# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from theodolite.statistics.resident import gram
from theodolite.statistics.resident.gram import HALF, Form
from theodolite.statistics.resident.jit import jit, tl, triton

TALL, BROAD, DEEP = 128, 256, 32  # a block of products, and rows that go into it at a time
WARPS, STAGES = 8, 4
MOST_EXTRA = 64  # columns behind the others that a block can take along
HIGH, WIDE, ADD_WARPS = 4, 128, 2  # products added up at a time
VARYING = ["rows", "chunks"]  # from batch to batch: a kernel must not be compiled for each kind of them


def products(chunks: Tensor, form: Form) -> Tensor:
    """Do what `plain.products` does, in blocks on and above the diagonal alone."""
    count, rows, width = chunks.shape
    if form.dtype not in HALF or form.extra > MOST_EXTRA or form.dim < TALL:
        return gram.products(chunks, form)
    partial = torch.empty(count, form.dim, width, dtype=torch.float32, device=chunks.device)
    tiles = _tiles(form.dim, chunks.device)
    _gram_kernel[(len(tiles), count)](
        chunks, partial, tiles, rows, form.dim, width,
        EXTRA=max(triton.next_power_of_2(form.extra), 16) if form.extra else 0,
        EVEN=form.dim % BROAD == 0, TALL=TALL, BROAD=BROAD, DEEP=DEEP,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return partial


@cache
def _tiles(dim: int, device: torch.device) -> Tensor:
    """Return the blocks on and above the diagonal. (blocks, 2) int32"""
    down, across = triton.cdiv(dim, TALL), triton.cdiv(dim, BROAD)
    tiles = [(i, j) for i in range(down) for j in range(across) if (j + 1) * BROAD > i * TALL]
    return torch.tensor(tiles, dtype=torch.int32).to(device)


def add_products(
    matrix: Tensor, partial: Tensor, n: Tensor, by_coordinate: Tensor, form: Form, closing: bool
) -> None:
    """Do what `plain.add_products` does, in one pass over the partial products."""
    chunks, dim, width = partial.shape
    rest = torch.empty(dim, max(form.extra, 1), dtype=torch.float64, device=matrix.device)
    if form.extra:
        _rest_kernel[(triton.cdiv(dim, 4),)](
            partial, rest, chunks, dim, width, form.extra,
            EXTRA=triton.next_power_of_2(form.extra), ROWS=4, num_warps=1,
        )  # fmt: skip
    _add_kernel[(triton.cdiv(dim, HIGH), triton.cdiv(dim, WIDE))](
        matrix, partial, rest, n, by_coordinate, form.centre, form.behind, chunks, dim, width, form.extra,
        EXTRA=form.extra > 0, CLOSING=closing, HIGH=HIGH, WIDE=WIDE, num_warps=ADD_WARPS,
    )  # fmt: skip


@jit(do_not_specialize=VARYING)
def _gram_kernel(
    sheet,
    partial,
    tiles,
    rows,
    dim,
    width,
    EXTRA: tl.constexpr,
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
    base = sheet + (chunk * rows + k)[:, None] * width
    left = base + i[None, :]
    right = base + j[None, :]
    total = tl.zeros([TALL, BROAD], tl.float32)
    if EXTRA:
        e = tl.arange(0, EXTRA)
        behind = base + dim + e[None, :]
        held_e = (dim + e < width)[None, :]
        more = tl.zeros([TALL, EXTRA], tl.float32)
    for _ in range(0, rows // DEEP):
        if EVEN:
            a = tl.load(left)
            b = tl.load(right)
        else:
            a = tl.load(left, mask=(i < dim)[None, :], other=0.0)
            b = tl.load(right, mask=(j < dim)[None, :], other=0.0)
        turned = tl.trans(a)
        total = tl.dot(turned, b, total)
        if EXTRA:
            rest = tl.load(behind, mask=held_e, other=0.0)
            more = tl.dot(turned, rest, more)
            behind += DEEP * width
        left += DEEP * width
        right += DEEP * width
    into = partial + (chunk * dim + i)[:, None] * width
    held_i = (i < dim)[:, None]
    tl.store(into + j[None, :], total, mask=held_i & (j < dim)[None, :])
    if EXTRA:
        # The last block of a line writes the columns behind; the others computed them in vain.
        last = (across + 1) * BROAD >= dim
        tl.store(into + dim + e[None, :], more, mask=held_i & held_e & last)


@jit(do_not_specialize=VARYING)
def _rest_kernel(partial, rest, chunks, dim, width, extra, EXTRA: tl.constexpr, ROWS: tl.constexpr):
    """Add up, over the chunks, the products with the columns behind."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.arange(0, EXTRA)
    held = (i < dim)[:, None] & (e < extra)[None, :]
    here = partial + i[:, None] * width + dim + e[None, :]
    total = tl.zeros([ROWS, EXTRA], tl.float64)
    for _ in range(0, chunks):
        total += tl.load(here, mask=held, other=0.0).to(tl.float64)
        here += dim * width
    tl.store(rest + i[:, None] * extra + e[None, :], total, mask=held)


@jit(do_not_specialize=VARYING)
def _add_kernel(
    matrix,
    partial,
    rest,
    n,
    by_coordinate,
    centre,
    behind,
    chunks,
    dim,
    width,
    extra,
    EXTRA: tl.constexpr,
    CLOSING: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
):
    i = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
    j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    if tl.program_id(0) * HIGH < (tl.program_id(1) + 1) * WIDE:
        held = (i < dim)[:, None] & (j < dim)[None, :] & (i[:, None] <= j[None, :])
        size = dim * width
        here = partial + i[:, None] * width + j[None, :]
        total = tl.zeros([HIGH, WIDE], tl.float64)
        for _ in range(0, chunks):
            total += tl.load(here, mask=held, other=0.0).to(tl.float64)
            here += size
        if EXTRA:
            e_i = tl.load(behind + i, mask=i < dim, other=-1)
            e_j = tl.load(behind + j, mask=j < dim, other=-1)
            to_j = rest + i[:, None] * extra + e_j[None, :]
            to_i = rest + j[None, :] * extra + e_i[:, None]
            total += tl.load(to_j, mask=held & (e_j >= 0)[None, :], other=0.0)
            total += tl.load(to_i, mask=held & (e_i >= 0)[:, None], other=0.0)
        if CLOSING:
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
