"""Reductions of sums by unit on a GPU in one pass each: the sums are gigabytes, and PyTorch needs seven passes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, index, untyped-decorator"

from __future__ import annotations

from torch import Tensor

from theodolite.optional_triton import can_launch, jit, tl, triton

UNITS, COLUMNS = 8, 256
"""Units and coordinates whose distances a program computes at a time: the points are read once for these units."""
ROWS, NARROW = 256, 128
"""Units and coordinates of one partial sum over units."""


def is_supported(total: Tensor) -> bool:
    """Return whether these sums can be reduced by a kernel."""
    return can_launch(total) and total.is_contiguous()


def squared_distances(counts: Tensor, total: Tensor, points: Tensor, rows: Tensor | None) -> Tensor:
    """Return |total/n - point|^2 of each unit or of the given rows. (units,), (units, dim), (points, dim)

    All float64, counts and rows int64 -> (points, units)
    """
    found = total.new_empty(len(points), len(counts))
    if len(counts):
        _distance_kernel[(triton.cdiv(len(counts), UNITS),)](
            total, counts, rows, points, found, len(counts), total.shape[1],
            SELECTED=rows is not None, NUMBER=len(points), POINTS=triton.next_power_of_2(len(points)),
            UNITS=UNITS, BLOCK=COLUMNS,
        )  # fmt: skip
    return found


def spread_of_means(counts: Tensor, weights: Tensor, total: Tensor, middle: Tensor) -> Tensor:
    """Return the sum over units of weight (total/n - middle)^2, by coordinate. -> (dim,)"""
    units, dim = total.shape
    partial = total.new_empty(triton.cdiv(units, ROWS), dim)
    if units:
        _spread_kernel[(len(partial), triton.cdiv(dim, NARROW))](
            total, counts, weights, middle, partial, units, dim, ROWS=ROWS, BLOCK=NARROW, num_warps=4
        )
    return partial.sum(0)


@jit
def _distance_kernel(
    total, counts, rows, points, found, units, dim,
    SELECTED: tl.constexpr, NUMBER: tl.constexpr, POINTS: tl.constexpr, UNITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    unit = tl.program_id(0).to(tl.int64) * UNITS + tl.arange(0, UNITS)
    real = unit < units
    row = unit
    if SELECTED:
        row = tl.load(rows + unit, mask=real, other=0)
    n = tl.load(counts + unit, mask=real, other=1).to(tl.float64)
    number = tl.arange(0, POINTS)
    away = tl.zeros([UNITS, POINTS], tl.float64)
    for start in range(0, dim, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < dim
        held = real[:, None] & inside[None, :]
        mean = tl.load(total + row[:, None] * dim + columns[None, :], mask=held, other=0.0) / n[:, None]
        for point in tl.static_range(NUMBER):
            less = mean - tl.load(points + point * dim + columns, mask=inside, other=0.0)[None, :]
            squared = tl.sum(tl.where(held, less * less, 0.0), 1)
            away += tl.where(number == point, 1.0, 0.0)[None, :] * squared[:, None]
    into = found + number.to(tl.int64)[None, :] * units + unit[:, None]
    tl.store(into, away, mask=real[:, None] & (number < NUMBER)[None, :])


@jit
def _spread_kernel(
    total, counts, weights, middle, partial, units, dim, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    part = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < dim
    centre = tl.load(middle + columns, mask=inside, other=0.0)
    spread = tl.zeros([BLOCK], tl.float64)
    for row in range(part * ROWS, tl.minimum(part * ROWS + ROWS, units)):
        mean = tl.load(total + row * dim + columns, mask=inside, other=0.0) / tl.load(counts + row).to(tl.float64)
        less = mean - centre
        spread += tl.load(weights + row) * less * less
    tl.store(partial + part * dim + columns, spread, mask=inside)
