"""The passes over a batch as Triton kernels.

The numbers are those of `plain`: sums by unit in float64 throughout, for which memory leaves time on any GPU; sums
by group in float32 within a piece and in float64 between. The states are read twice: to be measured and summed by
group; and, when it is known which rows are to be kept apart, to be summed by unit and written down.
"""

# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.resident import plain
from theodolite.statistics.resident.gram import HALF, Form, Sheet
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.passes import GroupSums, Measured
from theodolite.statistics.resident.tables import ResidentTable

try:
    import triton
    import triton.language as tl
except ImportError:  # Triton is for GPUs; elsewhere `plain` does the same
    triton = None

MEASURED, MEASURE_WARPS, MEASURE_STAGES = 1, 1, 3  # whole rows that a program holds at a time
COLUMNS = 256  # that a program sums: few enough for many programs, whose waits for memory then overlap
SUMMED = 4
SLOTS, SLOT_COLUMNS = 32, 32  # pieces of a long run added at a time
GATHERED = 8  # pieces of a group
FAR_ROWS = 64
TALL, BROAD, DEEP = 128, 256, 32  # a block of products, and rows that go into it at a time
GRAM_WARPS, GRAM_STAGES = 8, 4
MOST_EXTRA = 64  # columns behind the others that a block can take along
HIGH, WIDE, ADD_WARPS = 4, 128, 2  # products added up at a time
WIDEST = 8192
TYPES = (torch.bfloat16, torch.float16, torch.float32)


def usable(states: Tensor) -> bool:
    """Say whether the kernels can be run on these states."""
    return triton is not None and states.is_cuda and states.dtype in TYPES and states.shape[1] <= WIDEST


def measure_pass(
    states: Tensor, layout: Layout, centre: Tensor, limits: Tensor, held: GroupSums
) -> tuple[Measured, Tensor, Tensor]:
    """Do what `plain.measure_pass` does."""
    dim, pieces, device = states.shape[1], layout.groups, states.device
    block, count = triton.next_power_of_2(dim), len(pieces.start)
    norms = torch.empty(len(layout), dtype=torch.float64, device=device)
    flags = torch.empty(len(layout), dtype=torch.int8, device=device)
    sums = torch.empty(count, 4, dim, dtype=torch.float32, device=device)
    counts = torch.empty(count, 2, dtype=torch.int32, device=device)
    _measure_kernel[(count,)](
        states, states.stride(0), layout.by_group, layout.by_group_index, pieces.start, pieces.length,
        centre, limits, norms, flags, sums, counts, dim,
        ROWS=MEASURED, BLOCK=block, STAGES=MEASURE_STAGES,
        num_warps=MEASURE_WARPS * max(block // 1024, 1),
    )  # fmt: skip
    by_group = torch.empty(2 * GROUPS, 4, dim, dtype=torch.float64, device=device)
    n_by_group = torch.empty(2 * GROUPS, dtype=torch.int64, device=device)
    _gather_groups[(2 * GROUPS, triton.cdiv(4 * dim, 128))](
        sums, counts, layout.bounds, by_group, n_by_group, held.groups, held.n, dim,
        PIECES=GATHERED, BLOCK=128, num_warps=1,
    )  # fmt: skip
    by_cell = torch.empty(2, 4, dim, dtype=torch.float64, device=device)
    n = torch.empty(2, dtype=torch.float64, device=device)
    columns = triton.cdiv(4 * dim, 128)
    _gather_cells[(columns + 2 * GROUPS,)](
        by_group, n_by_group, by_cell, n, held.cells, held.squares, columns, dim,
        GROUPS=GROUPS, BLOCK=128, WHOLE=block, num_warps=4,
    )  # fmt: skip
    return Measured(norms, flags), n, by_cell


def unit_pass(
    states: Tensor, layout: Layout, flags: Tensor, form: Form, centre: Tensor, table: ResidentTable, rows: Tensor
) -> tuple[Sheet, Tensor]:
    """Do what `plain.unit_pass` does."""
    dim, device, pieces = states.shape[1], states.device, layout.units
    sheet = Sheet.room(form, layout.others, len(layout) - layout.others, device)
    apart = torch.empty(len(layout), dim, dtype=states.dtype, device=device)
    slots = max(pieces.slots, 1)
    part_sum = torch.empty(slots, dim, dtype=torch.float64, device=device)
    part_squares = torch.empty(slots, dtype=torch.float64, device=device)
    part_n = torch.empty(slots, dtype=torch.int64, device=device)
    across = triton.cdiv(dim, COLUMNS)
    _unit_kernel[(len(pieces.start),)](
        states, states.stride(0), layout.index, pieces.start, pieces.length, pieces.run, pieces.slot, rows,
        centre, form.taken, flags, sheet.rows, apart, table.sum, table.squares, table.n,
        part_sum, part_squares, part_n, layout.others, sheet.gap, form.width, dim,
        CENTRED=form.all_centred or form.extra > 0, ROWS=SUMMED, BLOCK=COLUMNS, ACROSS=across, num_warps=1,
    )  # fmt: skip
    if pieces.slots:
        _merge_kernel[(len(pieces.long_run), triton.cdiv(dim, SLOT_COLUMNS))](
            pieces.long_run, pieces.long_slot, pieces.long_pieces, rows,
            table.sum, table.squares, table.n, part_sum, part_squares, part_n, dim,
            SLOTS=SLOTS, BLOCK=SLOT_COLUMNS, num_warps=1,
        )  # fmt: skip
    written = sheet.rows.shape[0] * sheet.rows.shape[1]
    if form.extra:
        _far_kernel[(triton.cdiv(written, FAR_ROWS),)](
            states, states.stride(0), layout.index, centre, flags, form.far, sheet.rows,
            layout.others, sheet.gap, len(layout), written, form.width, dim, form.extra,
            EXTRA=triton.next_power_of_2(form.extra), ROWS=FAR_ROWS, num_warps=4,
        )  # fmt: skip
    for start, stop in sheet.gaps(len(layout)):
        sheet.rows.view(-1, form.width)[start:stop].zero_()
    return sheet, apart


def add_norms(counts: Tensor, zero: Tensor, extremes: Tensor, norms: Tensor, flags: Tensor, others: int) -> None:
    """Do what `plain.add_norms` does."""
    # As integers the bits of positive floats are in the floats' own order.
    _norm_kernel[(triton.cdiv(len(norms), 1024),)](
        counts, zero, extremes.view(torch.int64), norms, norms.view(torch.int64), flags, others, len(norms),
        LOWEST=LOWEST_OCTAVE, PER=BINS_PER_OCTAVE, BINS=BINS, NARROW=16, BLOCK=1024,
    )  # fmt: skip


def products(chunks: Tensor, form: Form) -> Tensor:
    """Do what `plain.products` does, in blocks on and above the diagonal alone."""
    count, rows, width = chunks.shape
    if form.dtype not in HALF or form.extra > MOST_EXTRA or form.dim < TALL:
        return plain.products(chunks, form)
    partial = torch.empty(count, form.dim, width, dtype=torch.float32, device=chunks.device)
    tiles = _tiles(form.dim, chunks.device)
    _gram_kernel[(len(tiles), count)](
        chunks, partial, tiles, rows, form.dim, width,
        EXTRA=max(triton.next_power_of_2(form.extra), 16) if form.extra else 0,
        EVEN=form.dim % BROAD == 0, TALL=TALL, BROAD=BROAD, DEEP=DEEP,
        num_warps=GRAM_WARPS, num_stages=GRAM_STAGES,
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


if triton is not None:
    # Numbers that differ from batch to batch: a kernel must not be compiled for each kind of them.
    _VARYING = ["others", "gap", "rows", "written", "chunks"]

    @triton.jit(do_not_specialize=_VARYING)
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
    def _measure_kernel(
        states,
        stride,
        order,
        index,
        start,
        length,
        centre,
        limits,
        norms,
        flags,
        sums,
        counts,
        dim,
        ROWS: tl.constexpr,
        BLOCK: tl.constexpr,
        STAGES: tl.constexpr,
    ):
        """Measure and flag the rows of a piece, and sum those that are not flagged."""
        piece = tl.program_id(0)
        begin = tl.load(start + piece)
        count = tl.load(length + piece)
        columns = tl.arange(0, BLOCK)
        inside = columns < dim
        c = tl.load(centre + columns, mask=inside, other=0.0).to(tl.float32)
        massive = tl.load(limits)
        least = tl.load(limits + 1)
        short = tl.load(limits + 2)
        long = tl.load(limits + 3)
        y_sum = tl.zeros([BLOCK], tl.float32)
        u_sum = tl.zeros([BLOCK], tl.float32)
        y_squares = tl.zeros([BLOCK], tl.float32)
        u_squares = tl.zeros([BLOCK], tl.float32)
        n = tl.zeros([ROWS], tl.int32)
        directed = tl.zeros([ROWS], tl.int32)
        for at in tl.range(0, count, ROWS, num_stages=STAGES):
            offset = at + tl.arange(0, ROWS)
            real = offset < count
            here = tl.load(order + begin + offset, mask=real, other=0)
            there = tl.load(index + begin + offset, mask=real, other=0).to(tl.int64)
            held = real[:, None] & inside[None, :]
            x = tl.load(states + there[:, None] * stride + columns[None, :], mask=held, other=0.0).to(tl.float32)
            # A square that float32 cannot hold makes the row odd, not infinite; this sum tells the two apart.
            size = tl.sum(tl.abs(x) * 0.00048828125, 1)
            finite = (size - size) == 0.0
            norm = tl.sqrt(tl.sum(x * x, 1)).to(tl.float64)
            odd = finite & (size > 0.0) & ((norm <= short) | (norm >= long))
            norm = tl.where(norm < least, 0.0, norm)
            flag = tl.where(finite & (norm > massive), 1, 0) + tl.where(finite, 0, 2) + tl.where(odd, 4, 0)
            tl.store(norms + here, norm, mask=real)
            tl.store(flags + here, flag.to(tl.int8), mask=real)
            keep = real & (flag == 0)
            has_length = keep & (norm > 0.0)
            inverse = tl.where(has_length, 1.0 / tl.where(has_length, norm, 1.0), 0.0).to(tl.float32)
            y = tl.where(keep[:, None], x - c[None, :], 0.0)
            u = tl.where(keep[:, None], x * inverse[:, None], 0.0)
            y_sum += tl.sum(y, 0)
            u_sum += tl.sum(u, 0)
            y_squares += tl.sum(y * y, 0)
            u_squares += tl.sum(u * u, 0)
            n += keep.to(tl.int32)
            directed += has_length.to(tl.int32)
        into = sums + piece.to(tl.int64) * 4 * dim + columns
        tl.store(into, y_sum, mask=inside)
        tl.store(into + dim, u_sum, mask=inside)
        tl.store(into + 2 * dim, y_squares, mask=inside)
        tl.store(into + 3 * dim, u_squares, mask=inside)
        tl.store(counts + 2 * piece, tl.sum(n, 0))
        tl.store(counts + 2 * piece + 1, tl.sum(directed, 0))

    @triton.jit(do_not_specialize=_VARYING)
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
        taken,
        flags,
        sheet,
        apart,
        table_sum,
        table_squares,
        table_n,
        part_sum,
        part_squares,
        part_n,
        others,
        gap,
        width,
        dim,
        CENTRED: tl.constexpr,
        ROWS: tl.constexpr,
        BLOCK: tl.constexpr,
        ACROSS: tl.constexpr,
    ):
        """Sum the rows of a piece and write them down, or keep them apart."""
        piece = tl.program_id(0)
        begin = tl.load(start + piece)
        count = tl.load(length + piece)
        into = tl.load(slot + piece)
        target = tl.load(row + tl.load(run + piece)).to(tl.int64)
        kind = sheet.dtype.element_ty
        squares = tl.zeros([BLOCK], tl.float64)
        n = tl.zeros([ROWS], tl.int64)
        for block in range(0, ACROSS):
            columns = block * BLOCK + tl.arange(0, BLOCK)
            inside = columns < dim
            to = table_sum + target * dim + columns
            total = tl.load(to, mask=inside & (into < 0), other=0.0)  # asked for early
            c = tl.load(centre + columns, mask=inside, other=0.0).to(tl.float64)
            if CENTRED:
                shift = tl.load(taken + columns, mask=inside, other=0.0).to(tl.float32)
            for at in range(0, count, ROWS):
                offset = at + tl.arange(0, ROWS)
                real = offset < count
                here = (begin + offset).to(tl.int64)
                there = tl.load(index + here, mask=real, other=0).to(tl.int64)
                flag = tl.load(flags + here, mask=real, other=1)
                held = real[:, None] & inside[None, :]
                raw = tl.load(states + there[:, None] * stride + columns[None, :], mask=held, other=0.0)
                kept = (flag == 0)[:, None] & held
                y = tl.where(kept, raw.to(tl.float64) - c[None, :], 0.0)
                total += tl.sum(y, 0)
                squares += tl.sum(y * y, 0)
                if block == 0:
                    n += (flag == 0).to(tl.int64)
                place = here + tl.where(here >= others, gap, 0)
                written = raw.to(kind)
                if CENTRED:
                    written = (raw.to(tl.float32) - shift[None, :]).to(kind)
                tl.store(
                    sheet + place[:, None] * width + columns[None, :], tl.where(kept, written, 0.0), mask=held
                )
                if tl.max(flag, 0) > 0:
                    flagged = (flag != 0)[:, None] & held
                    tl.store(apart + here[:, None] * dim + columns[None, :], raw, mask=flagged)
            if into < 0:
                tl.store(to, total, mask=inside)
            else:
                tl.store(part_sum + into.to(tl.int64) * dim + columns, total, mask=inside)
        if into < 0:
            tl.store(table_squares + target, tl.load(table_squares + target) + tl.sum(squares, 0))
            tl.store(table_n + target, tl.load(table_n + target) + tl.sum(n, 0))
        else:
            tl.store(part_squares + into, tl.sum(squares, 0))
            tl.store(part_n + into, tl.sum(n, 0))

    @triton.jit(do_not_specialize=_VARYING)
    def _far_kernel(
        states,
        stride,
        index,
        centre,
        flags,
        far,
        sheet,
        others,
        gap,
        rows,
        written,
        width,
        dim,
        extra,
        EXTRA: tl.constexpr,
        ROWS: tl.constexpr,
    ):
        """Write down what half precision leaves of the far coordinates."""
        at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        here = tl.where(at < others, at, at - gap)
        real = ((at < others) | (at >= others + gap)) & (here < rows)
        there = tl.load(index + here, mask=real, other=0).to(tl.int64)
        keep = real & (tl.load(flags + here, mask=real, other=1) == 0)
        number = tl.arange(0, EXTRA)
        some = number < extra
        coordinate = tl.load(far + number, mask=some, other=0)
        c = tl.load(centre + coordinate, mask=some, other=0.0).to(tl.float32)
        kept = keep[:, None] & some[None, :]
        x = tl.load(states + there[:, None] * stride + coordinate[None, :], mask=kept, other=0.0).to(tl.float32)
        y = tl.where(kept, x - c[None, :], 0.0)
        kind = sheet.dtype.element_ty
        high = y.to(kind)
        line = sheet + at[:, None] * width
        held = (at < written)[:, None] & some[None, :]
        tl.store(line + dim + number[None, :], (y - high.to(tl.float32)).to(kind), mask=held)

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
    ):
        """Add the pieces of each group up in their order; keep y and u."""
        group = tl.program_id(0)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = at < 4 * dim
        begin = tl.load(bounds + group)
        end = tl.load(bounds + group + 1)
        total = tl.zeros([BLOCK], tl.float64)
        n = tl.zeros([PIECES], tl.int64)
        directed = tl.zeros([PIECES], tl.int64)
        for piece in range(begin, end, PIECES):
            some = piece + tl.arange(0, PIECES)
            real = some < end
            held = real[:, None] & inside[None, :]
            line = some.to(tl.int64) * 4 * dim
            total += tl.sum(tl.load(sums + line[:, None] + at[None, :], mask=held, other=0.0).to(tl.float64), 0)
            n += tl.load(counts + 2 * some, mask=real, other=0).to(tl.int64)
            directed += tl.load(counts + 2 * some + 1, mask=real, other=0).to(tl.int64)
        tl.store(by_group + group * 4 * dim + at, total, mask=inside)
        kept = at < 2 * dim
        into = held_groups + group * 2 * dim + at
        tl.store(into, tl.load(into, mask=kept, other=0.0) + total, mask=kept)
        if tl.program_id(1) == 0:
            summed = tl.sum(n, 0)
            tl.store(n_by_group + group, summed)
            tl.store(held_n + 2 * group, tl.load(held_n + 2 * group) + summed)
            tl.store(held_n + 2 * group + 1, tl.load(held_n + 2 * group + 1) + tl.sum(directed, 0))

    @triton.jit
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
        """Add the groups of each cell up, and |y|^2 of each group."""
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
                    here = groups < GROUPS
                    count = tl.load(n_by_group + part * GROUPS + groups, mask=here, other=0)
                    tl.store(n + part, tl.sum(count, 0).to(tl.float64))
        else:
            group = number - across
            columns = tl.arange(0, WHOLE)
            squares = tl.load(by_group + (4 * group + 2) * dim + columns, mask=columns < dim, other=0.0)
            tl.store(held_squares + group, tl.load(held_squares + group) + tl.sum(squares, 0))

    @triton.jit(do_not_specialize=_VARYING)
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

    @triton.jit(do_not_specialize=_VARYING)
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

    @triton.jit(do_not_specialize=_VARYING)
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
