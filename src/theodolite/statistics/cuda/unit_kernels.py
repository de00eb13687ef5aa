"""Triton kernels that sum the rows of a batch by unit, and write the rows to be multiplied."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.optional_triton import jit, tl, triton
from theodolite.statistics.cuda.gram import GramFormat, GramRows
from theodolite.statistics.cuda.layout import Layout
from theodolite.statistics.cuda.tables import GpuSums, GpuUnitTable

NARROW, WIDE = (256, 1), (1024, 4)
"""Columns and warps per program, for narrow and for wide vectors: each warp has 256 columns."""
SUMMED, STAGES = 2, 3  # rows summed at a time, because most units of a batch have few, and prefetched
FAR_ROWS, MOST_FAR = 8, 64  # rows, and their far coordinates, of which remainders are written at a time
SLOTS, SLOT_COLUMNS, SLOT_STAGES = 4, 128, 4  # pieces of a long run added at a time, and prefetched
VARYING = ["others", "gap"]  # from batch to batch: must not trigger another compilation


def add_units(
    states: Tensor,
    layout: Layout,
    flags: Tensor,
    gram_format: GramFormat,
    centre: Tensor,
    table: GpuUnitTable,
    rows: Tensor,
    gram_rows: GramRows,
    frequent: GpuSums,
) -> Tensor:
    """Do the same as `reference.add_units`."""
    dim, device, pieces, extra = states.shape[1], states.device, layout.units, gram_format.extra
    # Of held states as many rows as these, whose memory is reused when they are freed.
    copied = len(states) if gram_rows.in_place else len(layout)
    flagged_rows = torch.empty(copied, dim, dtype=states.dtype, device=device)
    slots = max(pieces.slots, 1)
    part_sum = torch.empty(slots, dim, dtype=torch.float64, device=device)
    part_squares = torch.empty(slots, dtype=torch.float64, device=device)
    part_n = torch.empty(slots, dtype=torch.int64, device=device)
    columns, warps = NARROW if dim < WIDE[0] else WIDE
    across = triton.cdiv(dim, columns)
    _unit_kernel[(len(pieces.start),)](
        states, states.stride(0), layout.index, pieces.start, pieces.length, pieces.slot, rows[pieces.run], centre,
        gram_format.shift, gram_format.far, flags, gram_rows.rows, gram_rows.remainders, flagged_rows, table.sum,
        table.squares, table.n, part_sum, part_squares, part_n, layout.others, gram_rows.gap, dim, extra,
        CENTRED=gram_format.all_centred or extra > 0, FAR=min(triton.next_power_of_2(extra), MOST_FAR),
        FAR_ROWS=FAR_ROWS, IN_ORDER=layout.gap == gram_rows.gap, IN_PLACE=gram_rows.in_place,
        WRITTEN=gram_format.all_centred or not gram_rows.in_place, EVEN=dim % columns == 0, ROWS=SUMMED,
        BLOCK=columns, ACROSS=across, STAGES=STAGES, num_warps=warps,
    )  # fmt: skip
    runs = layout.frequent
    of_units = (pieces.long_run, pieces.long_slot, pieces.long_pieces, rows, table)
    of_groups = (runs.number, runs.slot, runs.pieces, runs.keys, frequent)
    for number, slot, count, target, into in (of_units, of_groups):
        if len(number):
            _merge_kernel[(len(number), triton.cdiv(dim, SLOT_COLUMNS))](
                number, slot, count, target, into.sum, into.squares, into.n, part_sum, part_squares, part_n, dim,
                SLOTS=SLOTS, BLOCK=SLOT_COLUMNS, STAGES=SLOT_STAGES, num_warps=1,
            )  # fmt: skip
    gram_rows.clear_gaps(len(layout))
    return flagged_rows


@jit(do_not_specialize=VARYING)
def _unit_kernel(
    states,
    stride,
    index,
    start,
    length,
    slot,
    row,
    centre,
    shifts,
    far,
    flags,
    gram_rows,
    remainders,
    flagged_rows,
    table_sum,
    table_squares,
    table_n,
    part_sum,
    part_squares,
    part_n,
    others,
    gap,
    dim,
    extra,
    CENTRED: tl.constexpr,
    FAR: tl.constexpr,
    FAR_ROWS: tl.constexpr,
    IN_ORDER: tl.constexpr,
    IN_PLACE: tl.constexpr,
    WRITTEN: tl.constexpr,
    EVEN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACROSS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum the rows of a piece, and write them and their remainders to be multiplied; copy flagged rows.

    With IN_PLACE the rows to be multiplied are the states: only kept rows are written or, without WRITTEN, only
    their far coordinates, and flagged rows are set to 0 once they have been copied.
    """
    piece = tl.program_id(0)
    begin = tl.load(start + piece)
    count = tl.load(length + piece)
    into = tl.load(slot + piece)
    target = tl.load(row + piece).to(tl.int64)
    kind = gram_rows.dtype.element_ty
    squares = tl.zeros([BLOCK], tl.float64)
    n = tl.zeros([ROWS], tl.int64)
    for block in range(0, ACROSS):
        columns = block * BLOCK + tl.arange(0, BLOCK)
        inside = tl.full([BLOCK], 1, tl.int1) if EVEN else columns < dim
        to = table_sum + target * dim + columns
        total = tl.load(to, mask=inside & (into < 0), other=0.0)  # loaded early
        c = tl.load(centre + columns, mask=inside, other=0.0).to(tl.float64)
        if CENTRED:
            shift = tl.load(shifts + columns, mask=inside, other=0.0).to(tl.float32)
        for at in tl.range(0, count, ROWS, num_stages=STAGES):
            offset = at + tl.arange(0, ROWS)
            real = offset < count
            layout_row = (begin + offset).to(tl.int64)
            place = layout_row + tl.where(layout_row >= others, gap, 0)
            state_row = place if IN_ORDER else tl.load(index + layout_row, mask=real, other=0).to(tl.int64)
            flag = tl.load(flags + layout_row, mask=real, other=0)
            held = real[:, None] & inside[None, :]
            raw = tl.load(states + state_row[:, None] * stride + columns[None, :], mask=held, other=0.0)
            kept = (flag == 0)[:, None] & held
            y = tl.where(kept, raw.to(tl.float64) - c[None, :], 0.0)
            total += tl.sum(y, 0)
            squares += tl.sum(y * y, 0)
            if block == 0:
                n += (real & (flag == 0)).to(tl.int64)
            if WRITTEN:
                written = raw.to(kind)
                if CENTRED:
                    written = (raw.to(tl.float32) - shift[None, :]).to(kind)
                to_multiply = gram_rows + place[:, None] * dim + columns[None, :]
                tl.store(to_multiply, tl.where(kept, written, 0.0), mask=kept if IN_PLACE else held)
        if into < 0:
            tl.store(to, total, mask=inside)
        else:
            tl.store(part_sum + into.to(tl.int64) * dim + columns, total, mask=inside)
    summed = tl.sum(n, 0)
    if into < 0:
        tl.store(table_squares + target, tl.load(table_squares + target) + tl.sum(squares, 0))
        tl.store(table_n + target, tl.load(table_n + target) + summed)
    else:
        tl.store(part_squares + into, tl.sum(squares, 0))
        tl.store(part_n + into, summed)
    if summed < count:
        for at in range(0, count):
            layout_row = (begin + at).to(tl.int64)
            place = layout_row + tl.where(layout_row >= others, gap, 0)
            state_row = place if IN_ORDER else tl.load(index + layout_row).to(tl.int64)
            if tl.load(flags + layout_row) != 0:
                for block in range(0, ACROSS):
                    columns = block * BLOCK + tl.arange(0, BLOCK)
                    raw = tl.load(states + state_row * stride + columns, mask=columns < dim, other=0.0)
                    tl.store(flagged_rows + layout_row * dim + columns, raw, mask=columns < dim)
                    if IN_PLACE:
                        tl.debug_barrier()  # all threads have read this part of the row
                        tl.store(gram_rows + place * dim + columns, tl.zeros_like(raw), mask=columns < dim)
    if FAR:
        if IN_PLACE:
            tl.debug_barrier()  # all threads have read the rows of the piece
        for at in range(0, count, FAR_ROWS):
            offset = at + tl.arange(0, FAR_ROWS)
            real = offset < count
            layout_row = (begin + offset).to(tl.int64)
            place = layout_row + tl.where(layout_row >= others, gap, 0)
            state_row = place if IN_ORDER else tl.load(index + layout_row, mask=real, other=0).to(tl.int64)
            keep = tl.load(flags + layout_row, mask=real, other=1) == 0
            for first in range(0, extra, FAR):
                number = first + tl.arange(0, FAR)
                coordinate = tl.load(far + number, mask=number < extra, other=0)
                c32 = tl.load(shifts + coordinate)
                held = real[:, None] & (number < extra)[None, :]  # rows after the last do not exist
                x = tl.load(states + state_row[:, None] * stride + coordinate[None, :], mask=held, other=0.0)
                y = tl.where(keep[:, None], x.to(tl.float32) - c32[None, :], 0.0)
                if IN_PLACE:
                    tl.store(gram_rows + place[:, None] * dim + coordinate[None, :], y.to(kind), mask=held)
                remainder = (y - y.to(kind).to(tl.float32)).to(kind)
                tl.store(remainders + place[:, None] * extra + number[None, :], remainder, mask=held)


@jit
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
    STAGES: tl.constexpr,
):
    number = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < dim
    begin = tl.load(long_slot + number).to(tl.int64)
    count = tl.load(long_pieces + number)
    total = tl.zeros([BLOCK], tl.float64)
    squares = tl.zeros([SLOTS], tl.float64)
    n = tl.zeros([SLOTS], tl.int64)
    for at in tl.range(0, count, SLOTS, num_stages=STAGES):
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
