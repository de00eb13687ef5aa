"""The two passes over a batch as Triton kernels: each reads the states once.

The numbers are those of `plain`: sums by unit in float64 throughout, for which memory leaves time on any GPU; sums
by group in float32 within 64 rows, as on the processor within a batch, and in float64 between.
"""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.pieces import Pieces
from theodolite.statistics.resident.plain import Targets
from theodolite.statistics.resident.tables import ResidentTable

try:
    import triton
    import triton.language as tl
except ImportError:  # Triton is for GPUs; elsewhere `plain` does the same
    triton = None

TILE = 4096  # numbers that a program holds at a time: more would leave fewer programs on a multiprocessor
MERGED, COLUMNS = 16, 128  # slots and columns that the second step holds
HIGH, WIDE = 16, 64  # lines and columns of products added up at a time
WIDEST = 8192
TYPES = (torch.bfloat16, torch.float16, torch.float32)


def usable(states: Tensor) -> bool:
    """Say whether the kernels can be run on these states."""
    return triton is not None and states.is_cuda and states.dtype in TYPES and states.shape[1] <= WIDEST


def unit_pass(
    states: Tensor, layout: Layout, centre: Tensor, limits: Tensor, targets: Targets
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `plain.unit_pass` does."""
    own = torch.empty(len(layout), states.shape[1], dtype=states.dtype, device=states.device)
    norms = torch.empty(len(layout), dtype=torch.float64, device=states.device)
    flags = torch.empty(len(layout), dtype=torch.int8, device=states.device)
    for first, _ in layout.parts:
        table, rows = targets[first]
        _units(states, layout, layout.units[first], centre.double(), limits, table, rows, (own, norms, flags))
    return own, norms, flags


def _units(
    states: Tensor,
    layout: Layout,
    pieces: Pieces,
    centre: Tensor,
    limits: Tensor,
    table: ResidentTable,
    rows: Tensor,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    dim = states.shape[1]
    block = triton.next_power_of_2(dim)
    slots = max(pieces.slots, 1)
    part_sum = torch.empty(slots, dim, dtype=torch.float64, device=states.device)
    part_squares = torch.empty(slots, dtype=torch.float64, device=states.device)
    part_n = torch.empty(slots, dtype=torch.int64, device=states.device)
    index = layout.index if layout.index is not None else pieces.start  # never read in the second case
    own, norms, flags = out
    _unit_kernel[(len(pieces.start),)](
        states,
        states.stride(0),
        index,
        pieces.start,
        pieces.length,
        pieces.run,
        pieces.slot,
        rows,
        centre,
        limits,
        own,
        norms,
        flags,
        table.sum,
        table.squares,
        table.n,
        part_sum,
        part_squares,
        part_n,
        dim,
        GATHER=layout.index is not None,
        ROWS=max(TILE // block, 1),
        BLOCK=block,
        num_warps=4 if block <= 1024 else 8,
    )
    if pieces.slots:
        _merge_kernel[(len(pieces.long_run), triton.cdiv(dim, COLUMNS))](
            pieces.long_run,
            pieces.long_slot,
            pieces.long_pieces,
            rows,
            table.sum,
            table.squares,
            table.n,
            part_sum,
            part_squares,
            part_n,
            dim,
            SLOTS=MERGED,
            BLOCK=COLUMNS,
            num_warps=4,
        )


def group_pass(own: Tensor, norms: Tensor, flags: Tensor, layout: Layout, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Do what `plain.group_pass` does."""
    dim, pieces = own.shape[1], layout.groups
    block = triton.next_power_of_2(dim)
    count = len(pieces.start)
    sums = torch.empty(count, 4, dim, dtype=torch.float32, device=own.device)
    counts = torch.empty(count, 2, dtype=torch.int32, device=own.device)
    _group_kernel[(count,)](
        own,
        norms,
        flags,
        layout.by_group,
        pieces.start,
        pieces.length,
        centre.float(),
        sums,
        counts,
        dim,
        ROWS=max(TILE // block, 1),
        BLOCK=block,
        num_warps=4 if block <= 1024 else 8,
    )
    # A product with ones and zeros adds the pieces of a group up, always in the same order.
    of_piece = layout.of_row[layout.by_group[pieces.start]]
    belongs = torch.arange(2 * GROUPS, device=own.device)[:, None] == of_piece
    total = belongs.double() @ torch.cat([sums.flatten(1).double(), counts.double()], dim=1)
    return total[:, :-2].reshape(2 * GROUPS, 4, dim), total[:, -2:].long()


def add_norms(counts: Tensor, zero: Tensor, extremes: Tensor, norms: Tensor, flags: Tensor, others: int) -> None:
    """Do what `plain.add_norms` does."""
    # As integers the bits of positive floats are in the floats' own order.
    _norm_kernel[(triton.cdiv(len(norms), 1024),)](
        counts, zero, extremes.view(torch.int64), norms, norms.view(torch.int64), flags, others, len(norms),
        LOWEST=LOWEST_OCTAVE, PER=BINS_PER_OCTAVE, BINS=BINS, NARROW=16, BLOCK=1024,
    )  # fmt: skip


def add_block(
    matrix: Tensor,
    partial: Tensor,
    rest: Tensor | None,
    start: int,
    n: Tensor,
    sums: Tensor,
    centre: Tensor,
    near: Tensor,
) -> None:
    """Do what `gram.add_block` does, in one pass over the partial products."""
    chunks, height, width = partial.shape
    grid = (triton.cdiv(height, HIGH), triton.cdiv(width, WIDE))
    left = rest if rest is not None else partial
    _block_kernel[grid](
        matrix, partial, left, sums, centre, near, n, start, chunks, height, width, matrix.shape[1],
        REST=rest is not None, HIGH=HIGH, WIDE=WIDE, num_warps=4,
    )  # fmt: skip


if triton is not None:

    @triton.jit
    def _norm_kernel(
        counts,
        zero,
        extremes,
        norms,
        bits,
        flags,
        others,
        rows,
        LOWEST: tl.constexpr,
        PER: tl.constexpr,
        BINS: tl.constexpr,
        NARROW: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        keep = (row < rows) & (tl.load(flags + row, mask=row < rows, other=2) == 0)
        norm = tl.load(norms + row, mask=keep, other=1.0)
        bit = tl.load(bits + row, mask=keep, other=0)
        first = (row >= others).to(tl.int32)
        positive = norm > 0.0
        octave = tl.log2(tl.where(positive, norm, 1.0))
        place = ((octave - LOWEST) * PER).to(tl.int64)
        place = tl.minimum(tl.maximum(place, 0), BINS - 1)
        one = tl.full([BLOCK], 1, tl.int64)
        tl.atomic_add(zero + first, one, mask=keep & (norm == 0.0))
        for part in range(2):
            here = keep & (first == part)
            if tl.max(here.to(tl.int32), 0) > 0:
                # Norms after a layer norm lie in a bin or two, on which a thousand additions would queue.
                counted = here & positive
                low = tl.min(tl.where(counted, place, BINS), 0)
                high = tl.max(tl.where(counted, place, -1), 0)
                if high - low < NARROW:
                    for number in range(low, high + 1):
                        tl.atomic_add(
                            counts + part * BINS + number, tl.sum((counted & (place == number)).to(tl.int64), 0)
                        )
                else:
                    tl.atomic_add(counts + part * BINS + place, one, mask=counted)
                tl.atomic_min(extremes + 2 * part, tl.min(tl.where(here, bit, 0x7FF0000000000000), 0))
                tl.atomic_max(extremes + 2 * part + 1, tl.max(tl.where(here, bit, 0), 0))

    @triton.jit
    def _block_kernel(
        matrix,
        partial,
        left,
        sums,
        centre,
        near,
        n,
        start,
        chunks,
        height,
        width,
        dim,
        REST: tl.constexpr,
        HIGH: tl.constexpr,
        WIDE: tl.constexpr,
    ):
        i = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
        j = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
        held = (i < height)[:, None] & (j < width)[None, :]
        at = i[:, None] * width + j[None, :]
        total = tl.zeros([HIGH, WIDE], tl.float64)
        here = partial + at
        for _ in range(0, chunks):
            total += tl.load(here, mask=held, other=0.0).to(tl.float64)
            here += height * width
        if REST:
            total += tl.load(left + at, mask=held, other=0.0).to(tl.float64)
        c_i = tl.load(centre + start + i, mask=i < height, other=0.0)
        c_j = tl.load(centre + start + j, mask=j < width, other=0.0)
        s_i = tl.load(sums + start + i, mask=i < height, other=0.0)
        s_j = tl.load(sums + start + j, mask=j < width, other=0.0)
        near_i = tl.load(near + start + i, mask=i < height, other=0.0)
        near_j = tl.load(near + start + j, mask=j < width, other=0.0)
        count = tl.load(n).to(tl.float64)
        total -= c_i[:, None] * s_j[None, :] + (s_i + count * c_i)[:, None] * c_j[None, :]
        total = tl.where(i[:, None] == j[None, :], 0.0, total * near_i[:, None] * near_j[None, :])
        place = matrix + (start + i)[:, None].to(tl.int64) * dim + start + j[None, :]
        tl.store(place, tl.load(place, mask=held, other=0.0) + total, mask=held)

    @triton.jit
    def _unit_kernel(
        states,
        stride,
        index,
        start,
        length,
        run,
        slot,
        row,
        centre,
        limits,
        own,
        norms,
        flags,
        table_sum,
        table_squares,
        table_n,
        part_sum,
        part_squares,
        part_n,
        dim,
        GATHER: tl.constexpr,
        ROWS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        piece = tl.program_id(0)
        begin = tl.load(start + piece)
        count = tl.load(length + piece)
        columns = tl.arange(0, BLOCK)
        inside = columns < dim
        c = tl.load(centre + columns, mask=inside, other=0.0)
        massive = tl.load(limits)
        least = tl.load(limits + 1)
        short = tl.load(limits + 2)
        long = tl.load(limits + 3)
        total = tl.zeros([BLOCK], tl.float64)
        squares = tl.zeros([BLOCK], tl.float64)
        n = tl.zeros([ROWS], tl.int64)
        for at in range(0, count, ROWS):
            offset = at + tl.arange(0, ROWS)
            real = offset < count
            here = (begin + offset).to(tl.int64)
            there = tl.load(index + here, mask=real, other=0).to(tl.int64) if GATHER else here
            held = real[:, None] & inside[None, :]
            raw = tl.load(states + there[:, None] * stride + columns[None, :], mask=held, other=0.0)
            tl.store(own + here[:, None] * dim + columns[None, :], raw, mask=held)
            x = raw.to(tl.float64)
            norm = tl.sqrt(tl.sum(x * x, 1))
            norm = tl.where(norm < least, 0.0, norm)
            finite = (norm - norm) == 0.0
            flag = tl.where(finite & (norm > massive), 1, 0) + tl.where(finite, 0, 2)
            odd = finite & (norm > 0.0) & ((norm <= short) | (norm >= long))
            flag += tl.where(odd, 4, 0)
            tl.store(norms + here, norm, mask=real)
            tl.store(flags + here, flag.to(tl.int8), mask=real)
            keep = real & (flag == 0)
            y = tl.where(keep[:, None] & inside[None, :], x - c[None, :], 0.0)
            total += tl.sum(y, 0)
            squares += tl.sum(y * y, 0)
            n += keep.to(tl.int64)
        into = tl.load(slot + piece)
        square = tl.sum(squares, 0)
        seen = tl.sum(n, 0)
        if into < 0:
            target = tl.load(row + tl.load(run + piece)).to(tl.int64)
            place = table_sum + target * dim + columns
            tl.store(place, tl.load(place, mask=inside, other=0.0) + total, mask=inside)
            tl.store(table_squares + target, tl.load(table_squares + target) + square)
            tl.store(table_n + target, tl.load(table_n + target) + seen)
        else:
            tl.store(part_sum + into.to(tl.int64) * dim + columns, total, mask=inside)
            tl.store(part_squares + into, square)
            tl.store(part_n + into, seen)

    @triton.jit
    def _merge_kernel(
        long_run,
        long_slot,
        long_pieces,
        row,
        table_sum,
        table_squares,
        table_n,
        part_sum,
        part_squares,
        part_n,
        dim,
        SLOTS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        number = tl.program_id(0)
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = columns < dim
        begin = tl.load(long_slot + number).to(tl.int64)
        count = tl.load(long_pieces + number)
        total = tl.zeros([BLOCK], tl.float64)
        squares = tl.zeros([SLOTS], tl.float64)
        n = tl.zeros([SLOTS], tl.int64)
        for at in range(0, count, SLOTS):
            offset = at + tl.arange(0, SLOTS)
            real = offset < count
            slot = begin + offset
            held = real[:, None] & inside[None, :]
            total += tl.sum(tl.load(part_sum + slot[:, None] * dim + columns[None, :], mask=held, other=0.0), 0)
            squares += tl.load(part_squares + slot, mask=real, other=0.0)
            n += tl.load(part_n + slot, mask=real, other=0)
        target = tl.load(row + tl.load(long_run + number)).to(tl.int64)
        place = table_sum + target * dim + columns
        tl.store(place, tl.load(place, mask=inside, other=0.0) + total, mask=inside)
        if tl.program_id(1) == 0:
            tl.store(table_squares + target, tl.load(table_squares + target) + tl.sum(squares, 0))
            tl.store(table_n + target, tl.load(table_n + target) + tl.sum(n, 0))

    @triton.jit
    def _group_kernel(
        own,
        norms,
        flags,
        order,
        start,
        length,
        centre,
        sums,
        counts,
        dim,
        ROWS: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        piece = tl.program_id(0)
        begin = tl.load(start + piece)
        count = tl.load(length + piece)
        columns = tl.arange(0, BLOCK)
        inside = columns < dim
        c = tl.load(centre + columns, mask=inside, other=0.0)
        y_sum = tl.zeros([BLOCK], tl.float32)
        u_sum = tl.zeros([BLOCK], tl.float32)
        y_squares = tl.zeros([BLOCK], tl.float32)
        u_squares = tl.zeros([BLOCK], tl.float32)
        n = tl.zeros([ROWS], tl.int32)
        directed = tl.zeros([ROWS], tl.int32)
        for at in range(0, count, ROWS):
            offset = at + tl.arange(0, ROWS)
            real = offset < count
            here = tl.load(order + begin + offset, mask=real, other=0).to(tl.int64)
            keep = real & (tl.load(flags + here, mask=real, other=2) == 0)
            norm = tl.load(norms + here, mask=keep, other=0.0)
            inverse = tl.where(norm > 0.0, 1.0 / tl.where(norm > 0.0, norm, 1.0), 0.0).to(tl.float32)
            held = keep[:, None] & inside[None, :]
            x = tl.load(own + here[:, None] * dim + columns[None, :], mask=held, other=0.0).to(tl.float32)
            y = tl.where(held, x - c[None, :], 0.0)
            u = x * inverse[:, None]
            y_sum += tl.sum(y, 0)
            u_sum += tl.sum(u, 0)
            y_squares += tl.sum(y * y, 0)
            u_squares += tl.sum(u * u, 0)
            n += keep.to(tl.int32)
            directed += (norm > 0.0).to(tl.int32)
        into = sums + piece.to(tl.int64) * 4 * dim + columns
        tl.store(into, y_sum, mask=inside)
        tl.store(into + dim, u_sum, mask=inside)
        tl.store(into + 2 * dim, y_squares, mask=inside)
        tl.store(into + 3 * dim, u_squares, mask=inside)
        tl.store(counts + 2 * piece, tl.sum(n, 0))
        tl.store(counts + 2 * piece + 1, tl.sum(directed, 0))
