"""Triton kernels for the norms, the flags and the sums by group of a batch, and for the histogram of norms."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.optional_triton import jit, tl, triton
from theodolite.statistics.cuda.gram import GramFormat, GramRows
from theodolite.statistics.cuda.layout import Layout
from theodolite.statistics.cuda.reference import GroupSums, Measurements
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE

WARPS, STAGES = 1, 3  # a program handles one complete row at a time
NORM_ROWS = 8  # measured by one program
SUMMED, COLUMNS, SUM_STAGES = 4, 256, 3  # rows and columns that a warp adds at a time, and prefetches
FAR_ROWS, FAR, FAR_WARPS = 32, 64, 4  # rows, and their far coordinates, loaded together
GATHERED, GATHER_STAGES = 8, 4  # pieces of a group added at a time, and prefetched
VARYING = ["others", "gap", "rows"]  # from batch to batch: must not trigger another compilation


def measure_norms(states: Tensor, layout: Layout, limits: Tensor, *, copy: bool) -> tuple[Tensor, Measurements]:
    """Do the same as `reference.measure_norms`, in one pass."""
    dim, rows = states.shape[1], len(layout)
    block = triton.next_power_of_2(dim)
    held = torch.empty(rows, dim, dtype=states.dtype, device=states.device) if copy else states
    norms = torch.empty(rows, dtype=torch.float64, device=states.device)
    flags = torch.empty(rows, dtype=torch.int8, device=states.device)
    _norm_kernel[(triton.cdiv(rows, NORM_ROWS),)](
        states, states.stride(0), layout.index, limits, held, norms, flags, rows, dim, COPY=copy, ROWS=NORM_ROWS,
        BLOCK=block, STAGES=STAGES, num_warps=WARPS * max(block // 1024, 1),
    )  # fmt: skip
    return held, Measurements(norms, flags)


def sum_groups(
    states: Tensor,
    layout: Layout,
    measured: Measurements,
    centre: Tensor,
    held: GroupSums,
    gram_format: GramFormat,
    gram_rows: GramRows,
) -> tuple[Tensor, Tensor]:
    """Do the same as `reference.sum_groups`, and also write the extra columns of `gram_rows`."""
    dim, pieces, device = states.shape[1], layout.groups, states.device
    block, count = triton.next_power_of_2(dim), len(pieces.start)
    sums = torch.empty(count, 4, dim, dtype=torch.float32, device=device)
    counts = torch.empty(count, 2, dtype=torch.int32, device=device)
    weights = torch.empty(len(layout), dtype=torch.float32, device=device)
    _weight_kernel[(triton.cdiv(len(layout), 1024),)](
        layout.by_group, measured.norms, measured.flags, weights, len(layout), BLOCK=1024
    )
    _sum_kernel[(count, triton.cdiv(dim, COLUMNS))](
        states, states.stride(0), layout.by_group_index, weights, pieces.start, pieces.length, centre, sums,
        counts, dim, EVEN=dim % COLUMNS == 0, ROWS=SUMMED, BLOCK=COLUMNS, STAGES=SUM_STAGES, num_warps=1,
    )  # fmt: skip
    if gram_format.extra:
        columns = min(triton.next_power_of_2(gram_format.extra), FAR)
        _far_kernel[(triton.cdiv(len(layout), FAR_ROWS), triton.cdiv(gram_format.extra, columns))](
            states, states.stride(0), layout.index, centre, measured.flags, gram_format.far, gram_rows.rows,
            layout.others, gram_rows.gap, len(layout), gram_format.width, dim, gram_format.extra, ROWS=FAR_ROWS,
            EXTRA=columns, num_warps=FAR_WARPS,
        )  # fmt: skip
    by_group = torch.empty(2 * GROUPS, 4, dim, dtype=torch.float64, device=device)
    n_by_group = torch.empty(2 * GROUPS, dtype=torch.int64, device=device)
    _gather_groups[(2 * GROUPS, triton.cdiv(4 * dim, 128))](
        sums, counts, layout.bounds, by_group, n_by_group, held.groups, held.n, dim,
        PIECES=GATHERED, BLOCK=128, STAGES=GATHER_STAGES, num_warps=1,
    )  # fmt: skip
    by_cell = torch.empty(2, 4, dim, dtype=torch.float64, device=device)
    n = torch.empty(2, dtype=torch.float64, device=device)
    columns = triton.cdiv(4 * dim, 128)
    _gather_cells[(columns + 2 * GROUPS,)](
        by_group, n_by_group, by_cell, n, held.cells, held.squares, columns, dim,
        GROUPS=GROUPS, BLOCK=128, WHOLE=block, num_warps=4,
    )  # fmt: skip
    return n, by_cell


def add_norms(counts: Tensor, zero: Tensor, extremes: Tensor, norms: Tensor, flags: Tensor, others: int) -> None:
    """Do the same as `reference.add_norms`."""
    # The bits of positive floats, read as integers, have the order of the floats.
    _histogram_kernel[(triton.cdiv(len(norms), 1024),)](
        counts, zero, extremes.view(torch.int64), norms, norms.view(torch.int64), flags, others, len(norms),
        LOWEST=LOWEST_OCTAVE, PER=BINS_PER_OCTAVE, BINS=BINS, NARROW=16, BLOCK=1024,
    )  # fmt: skip


@jit(do_not_specialize=VARYING)
def _norm_kernel(
    states,
    stride,
    index,
    limits,
    held,
    norms,
    flags,
    rows,
    dim,
    COPY: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute norms and flags of a few rows, and copy them."""
    columns = tl.arange(0, BLOCK)
    inside = columns < dim
    massive = tl.load(limits)
    least = tl.load(limits + 1)
    short = tl.load(limits + 2)
    long = tl.load(limits + 3)
    begin = tl.program_id(0).to(tl.int64) * ROWS
    for row in tl.range(begin, tl.minimum(begin + ROWS, rows), num_stages=STAGES):
        state_row = tl.load(index + row).to(tl.int64)
        raw = tl.load(states + state_row * stride + columns, mask=inside, other=0.0)
        if COPY:
            tl.store(held + row * dim + columns, raw, mask=inside)
        x = raw.to(tl.float32)
        square = tl.sum(x * x, 0)
        norm = tl.sqrt(square).to(tl.float64)
        norm = tl.where(norm < least, 0.0, norm)
        flag = tl.where(norm > massive, 1, 0)
        if (norm <= short) | (norm >= long) | (square - square != 0.0):
            # A square that overflows float32 makes the row odd, not infinite; this sum distinguishes the two.
            size = tl.sum(tl.abs(x) * 0.00048828125, 0)
            finite = (size - size) == 0.0
            odd = finite & (size > 0.0)
            flag = tl.where(finite & (norm > massive), 1, 0) + tl.where(finite, 0, 2) + tl.where(odd, 4, 0)
        tl.store(norms + row, norm)
        tl.store(flags + row, flag.to(tl.int8))


@jit(do_not_specialize=VARYING)
def _weight_kernel(order, norms, flags, weights, rows, BLOCK: tl.constexpr):
    """Write 1/|x| of every row in the order of the groups, 0 for rows of length 0 and -1 for flagged ones."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(order + at, mask=at < rows, other=0)
    norm = tl.load(norms + row)
    weight = tl.where(norm > 0.0, 1.0 / tl.where(norm > 0.0, norm, 1.0), 0.0)
    weight = tl.where(tl.load(flags + row) == 0, weight, -1.0)
    tl.store(weights + at, weight.to(tl.float32), mask=at < rows)


@jit
def _sum_kernel(
    states,
    stride,
    index,
    weights,
    start,
    length,
    centre,
    sums,
    counts,
    dim,
    EVEN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum some columns of the unflagged rows of a piece."""
    piece = tl.program_id(0)
    begin = tl.load(start + piece)
    count = tl.load(length + piece)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < dim
    c = tl.load(centre + columns, mask=inside, other=0.0).to(tl.float32)
    y_sum = tl.zeros([BLOCK], tl.float32)
    u_sum = tl.zeros([BLOCK], tl.float32)
    y_squares = tl.zeros([BLOCK], tl.float32)
    u_squares = tl.zeros([BLOCK], tl.float32)
    n = tl.zeros([ROWS], tl.int32)
    directed = tl.zeros([ROWS], tl.int32)
    for at in tl.range(0, count, ROWS, num_stages=STAGES):
        offset = at + tl.arange(0, ROWS)
        real = offset < count
        state_row = tl.load(index + begin + offset, mask=real, other=0).to(tl.int64)
        weight = tl.load(weights + begin + offset, mask=real, other=-1.0)
        place = states + state_row[:, None] * stride + columns[None, :]
        # Flagged rows are read too, and the first row in place of those that do not exist: no load has to wait.
        raw = tl.load(place) if EVEN else tl.load(place, mask=inside[None, :], other=0.0)
        keep = weight >= 0.0
        x = tl.where(keep[:, None], raw.to(tl.float32), 0.0)
        y = x - keep.to(tl.float32)[:, None] * c[None, :]
        u = x * weight[:, None]
        y_sum += tl.sum(y, 0)
        u_sum += tl.sum(u, 0)
        y_squares += tl.sum(y * y, 0)
        u_squares += tl.sum(u * u, 0)
        n += keep.to(tl.int32)
        directed += (weight > 0.0).to(tl.int32)
    into = sums + piece.to(tl.int64) * 4 * dim + columns
    tl.store(into, y_sum, mask=inside)
    tl.store(into + dim, u_sum, mask=inside)
    tl.store(into + 2 * dim, y_squares, mask=inside)
    tl.store(into + 3 * dim, u_squares, mask=inside)
    if tl.program_id(1) == 0:
        tl.store(counts + 2 * piece, tl.sum(n, 0))
        tl.store(counts + 2 * piece + 1, tl.sum(directed, 0))


@jit(do_not_specialize=VARYING)
def _far_kernel(
    states,
    stride,
    index,
    centre,
    flags,
    far,
    gram_rows,
    others,
    gap,
    rows,
    width,
    dim,
    extra,
    ROWS: tl.constexpr,
    EXTRA: tl.constexpr,
):
    """Write the remainders of some far coordinates of a few rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    number = tl.program_id(1) * EXTRA + tl.arange(0, EXTRA)
    real = row < rows
    is_extra = number < extra
    state_row = tl.load(index + row, mask=real, other=0).to(tl.int64)
    keep = tl.load(flags + row, mask=real, other=1) == 0
    coordinate = tl.load(far + number, mask=is_extra, other=0)
    c = tl.load(centre + coordinate, mask=is_extra, other=0.0).to(tl.float32)
    kept = keep[:, None] & is_extra[None, :]
    x = tl.load(states + state_row[:, None] * stride + coordinate[None, :], mask=kept, other=0.0).to(tl.float32)
    y = tl.where(kept, x - c[None, :], 0.0)
    kind = gram_rows.dtype.element_ty
    remainder = (y - y.to(kind).to(tl.float32)).to(kind)
    place = row.to(tl.int64) + tl.where(row >= others, gap, 0)
    into = gram_rows + place[:, None] * width + dim + number[None, :]
    tl.store(into, remainder, mask=real[:, None] & is_extra[None, :])


@jit
def _gather_groups(
    sums,
    counts,
    bounds,
    by_group,
    n_by_group,
    held_groups,
    held_n,
    dim,
    PIECES: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Add the pieces of each group in order; accumulate the sums of y and u."""
    group = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < 4 * dim
    begin = tl.load(bounds + group)
    end = tl.load(bounds + group + 1)
    total = tl.zeros([BLOCK], tl.float64)
    n = tl.zeros([PIECES], tl.int64)
    directed = tl.zeros([PIECES], tl.int64)
    for piece in tl.range(begin, end, PIECES, num_stages=STAGES):
        pieces = piece + tl.arange(0, PIECES)
        real = pieces < end
        held = real[:, None] & inside[None, :]
        line = pieces.to(tl.int64) * 4 * dim
        total += tl.sum(tl.load(sums + line[:, None] + at[None, :], mask=held, other=0.0).to(tl.float64), 0)
        n += tl.load(counts + 2 * pieces, mask=real, other=0).to(tl.int64)
        directed += tl.load(counts + 2 * pieces + 1, mask=real, other=0).to(tl.int64)
    tl.store(by_group + group * 4 * dim + at, total, mask=inside)
    kept = at < 2 * dim
    into = held_groups + group * 2 * dim + at
    tl.store(into, tl.load(into, mask=kept, other=0.0) + total, mask=kept)
    if tl.program_id(1) == 0:
        summed = tl.sum(n, 0)
        tl.store(n_by_group + group, summed)
        tl.store(held_n + 2 * group, tl.load(held_n + 2 * group) + summed)
        tl.store(held_n + 2 * group + 1, tl.load(held_n + 2 * group + 1) + tl.sum(directed, 0))


@jit
def _gather_cells(
    by_group,
    n_by_group,
    by_cell,
    n,
    held_cells,
    held_squares,
    across,
    dim,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Add the groups of each cell, and |y|^2 of each group."""
    number = tl.program_id(0)
    if number < across:
        at = number * BLOCK + tl.arange(0, BLOCK)
        inside = at < 4 * dim
        for part in range(2):
            total = tl.zeros([BLOCK], tl.float64)
            for group in range(GROUPS):
                total += tl.load(by_group + (part * GROUPS + group) * 4 * dim + at, mask=inside, other=0.0)
            tl.store(by_cell + part * 4 * dim + at, total, mask=inside)
            into = held_cells + part * 4 * dim + at
            tl.store(into, tl.load(into, mask=inside, other=0.0) + total, mask=inside)
            if number == 0:
                groups = tl.arange(0, 32)
                selected = groups < GROUPS
                count = tl.load(n_by_group + part * GROUPS + groups, mask=selected, other=0)
                tl.store(n + part, tl.sum(count, 0).to(tl.float64))
    else:
        group = number - across
        columns = tl.arange(0, WHOLE)
        squares = tl.load(by_group + (4 * group + 2) * dim + columns, mask=columns < dim, other=0.0)
        tl.store(held_squares + group, tl.load(held_squares + group) + tl.sum(squares, 0))


@jit(do_not_specialize=VARYING)
def _histogram_kernel(
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
        selected = keep & (first == part)
        if tl.max(selected.to(tl.int32), 0) > 0:
            # After a layer norm all norms are in one or two bins, where a thousand atomic additions would queue.
            counted = selected & positive
            low = tl.min(tl.where(counted, place, BINS), 0)
            high = tl.max(tl.where(counted, place, -1), 0)
            if high - low < NARROW:
                for number in range(low, high + 1):
                    tl.atomic_add(
                        counts + part * BINS + number, tl.sum((counted & (place == number)).to(tl.int64), 0)
                    )
            else:
                tl.atomic_add(counts + part * BINS + place, one, mask=counted)
            tl.atomic_min(extremes + 2 * part, tl.min(tl.where(selected, bit, 0x7FF0000000000000), 0))
            tl.atomic_max(extremes + 2 * part + 1, tl.max(tl.where(selected, bit, 0), 0))
