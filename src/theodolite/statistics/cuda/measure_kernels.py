"""Triton kernels for the norms, the flags and the sums by group of a batch, and for the histogram of norms."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.optional_triton import jit, tl, triton
from theodolite.statistics.cuda.layout import GROUP_ROWS, Layout
from theodolite.statistics.cuda.reference import GroupSums, Measurements
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE

STAGES, PER_WARP = 4, 1024  # rows that are prefetched, and columns of a row for each warp
GATHERED, GATHER_STAGES = 8, 4  # pieces of a group added at a time, and prefetched
VARYING = ["others", "gap", "rows"]  # from batch to batch: must not trigger another compilation


def measure(
    states: Tensor, layout: Layout, limits: Tensor, centre: Tensor, held: Tensor | None = None, gap: int = 0
) -> Measurements:
    """Do the same as `reference.measure`, and sum the pieces of groups, in one pass."""
    dim, device = states.shape[1], states.device
    norms = torch.empty(len(layout), dtype=torch.float64, device=device)
    flags = torch.empty(len(layout), dtype=torch.int8, device=device)
    pieces = len(layout.groups.start)
    sums = torch.empty(pieces, 4, dim, dtype=torch.float32, device=device)
    counts = torch.empty(pieces, 2, dtype=torch.int32, device=device)
    measured = Measurements(norms, flags, (sums, counts))
    _measure_pieces(states, layout, centre, measured, limits, held, gap)
    return measured


def _measure_pieces(
    states: Tensor,
    layout: Layout,
    centre: Tensor,
    measured: Measurements,
    limits: Tensor | None = None,
    held: Tensor | None = None,
    gap: int = 0,
) -> None:
    """Measure the rows with these limits, and copy them to `held`; without limits, sum pieces with sinks again."""
    dim, pieces = states.shape[1], layout.groups
    assert measured.pieces is not None
    most = triton.next_power_of_2(dim + 1) // 2  # the largest power of 2 that is not above dim
    rest = triton.next_power_of_2(dim - most) if dim > most else 0
    warps = triton.next_power_of_2(triton.cdiv(most + rest, PER_WARP))
    _measure_kernel[(len(pieces.start),)](
        states, states.stride(0), layout.by_group_index, layout.by_group, pieces.start, pieces.length,
        measured.norms if limits is None else limits, centre, states if held is None else held, measured.norms,
        measured.flags, *measured.pieces, layout.others, gap, dim, COPY=held is not None, AGAIN=limits is None,
        MOST=most, REST=rest, LONGEST=GROUP_ROWS, STAGES=STAGES, num_warps=warps,
    )  # fmt: skip


def sum_groups(
    states: Tensor, layout: Layout, measured: Measurements, centre: Tensor, held: GroupSums, *, again: bool
) -> tuple[Tensor, Tensor]:
    """Do the same as `reference.sum_groups`. Only pieces with sinks are summed again."""
    dim, device = states.shape[1], states.device
    block = triton.next_power_of_2(dim)
    if again:
        _measure_pieces(states, layout, centre, measured)
    assert measured.pieces is not None
    sums, counts = measured.pieces
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
def _measure_kernel(
    states,
    stride,
    index,
    order,
    start,
    length,
    limits,
    centre,
    held,
    norms,
    flags,
    sums,
    counts,
    others,
    gap,
    dim,
    COPY: tl.constexpr,
    AGAIN: tl.constexpr,
    MOST: tl.constexpr,
    REST: tl.constexpr,
    LONGEST: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute norms and flags of the rows of a piece, copy them, and sum those without a flag.

    The columns are in two parts whose sizes are powers of 2. With AGAIN, flags and norms are read: the rows of a
    piece are summed again if one of them is a sink, and not flagged for another reason.
    """
    piece = tl.program_id(0)
    begin = tl.load(start + piece)
    count = tl.load(length + piece)
    if AGAIN:
        at = tl.arange(0, LONGEST)
        place = tl.load(order + begin + at, mask=at < count, other=0)
        is_sink = tl.load(flags + place, mask=at < count, other=0) == 8  # no other flag
        count = tl.where(tl.max(is_sink.to(tl.int32), 0) > 0, count, 0)
    else:
        massive = tl.load(limits)
        least = tl.load(limits + 1)
        short = tl.load(limits + 2)
        long = tl.load(limits + 3)
    columns = tl.arange(0, MOST)
    c = tl.load(centre + columns).to(tl.float32)
    y_sum = tl.zeros([MOST], tl.float32)
    u_sum = tl.zeros([MOST], tl.float32)
    y_squares = tl.zeros([MOST], tl.float32)
    u_squares = tl.zeros([MOST], tl.float32)
    if REST:
        more = MOST + tl.arange(0, REST)
        inside = more < dim
        d = tl.load(centre + more, mask=inside, other=0.0).to(tl.float32)
        z_sum = tl.zeros([REST], tl.float32)
        v_sum = tl.zeros([REST], tl.float32)
        z_squares = tl.zeros([REST], tl.float32)
        v_squares = tl.zeros([REST], tl.float32)
    n = 0
    directed = 0
    for row in tl.range(begin, begin + count, num_stages=STAGES):
        layout_row = tl.load(order + row).to(tl.int64)
        state_row = tl.load(index + row).to(tl.int64) * stride
        raw = tl.load(states + state_row + columns)
        x = raw.to(tl.float32)
        if REST:
            raw_rest = tl.load(states + state_row + more, mask=inside, other=0.0)
            x_rest = raw_rest.to(tl.float32)
        if AGAIN:
            norm = tl.load(norms + layout_row).to(tl.float32)
            flag = tl.load(flags + layout_row).to(tl.int32)
        else:
            square = tl.sum(x * x, 0)
            if REST:
                square += tl.sum(x_rest * x_rest, 0)
            norm = tl.sqrt(square)
            norm = tl.where(norm < least, 0.0, norm)
            flag = tl.where(norm > massive, 1, 0)
            if (norm <= short) | (norm >= long) | (square - square != 0.0):
                # A square that overflows float32 makes the row odd, not infinite; this sum distinguishes the two.
                size = tl.sum(tl.abs(x) * 0.00048828125, 0)
                if REST:
                    size += tl.sum(tl.abs(x_rest) * 0.00048828125, 0)
                finite = (size - size) == 0.0
                odd = finite & (size > 0.0)
                flag = tl.where(finite & (norm > massive), 1, 0) + tl.where(finite, 0, 2) + tl.where(odd, 4, 0)
            tl.store(norms + layout_row, norm.to(tl.float64))
            tl.store(flags + layout_row, flag.to(tl.int8))
            if COPY:
                place = layout_row + tl.where(layout_row >= others, gap, 0)
                tl.store(held + place * dim + columns, raw)
                if REST:
                    tl.store(held + place * dim + more, raw_rest, mask=inside)
        if flag != 0:
            x = tl.zeros([MOST], tl.float32)
            if REST:
                x_rest = tl.zeros([REST], tl.float32)
        keep = tl.where(flag == 0, 1.0, 0.0)
        weight = tl.where(norm > 0.0, keep / tl.where(norm > 0.0, norm, 1.0), 0.0)
        n += (flag == 0).to(tl.int32)
        directed += (weight > 0.0).to(tl.int32)
        y = x - keep * c
        u = x * weight
        y_sum += y
        u_sum += u
        y_squares += y * y
        u_squares += u * u
        if REST:
            z = x_rest - keep * d
            v = x_rest * weight
            z_sum += z
            v_sum += v
            z_squares += z * z
            v_squares += v * v
    if count > 0:
        into = sums + piece.to(tl.int64) * 4 * dim
        tl.store(into + columns, y_sum)
        tl.store(into + dim + columns, u_sum)
        tl.store(into + 2 * dim + columns, y_squares)
        tl.store(into + 3 * dim + columns, u_squares)
        if REST:
            tl.store(into + more, z_sum, mask=inside)
            tl.store(into + dim + more, v_sum, mask=inside)
            tl.store(into + 2 * dim + more, z_squares, mask=inside)
            tl.store(into + 3 * dim + more, v_squares, mask=inside)
        tl.store(counts + 2 * piece, n)
        tl.store(counts + 2 * piece + 1, directed)


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
