"""A step of Lanczos' method on a GPU in one kernel: PyTorch needs six, each of which waits for other threads."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, index, untyped-decorator"

from __future__ import annotations

from torch import Tensor

from theodolite.optional_triton import can_launch, jit, tl, triton

HELD = 2**15
"""Numbers of the basis that are multiplied at a time."""
WIDEST = 8192
WARPS = 16


def is_supported(matrix: Tensor) -> bool:
    """Return whether the kernel can be used."""
    return can_launch(matrix) and len(matrix) <= WIDEST


def extend(basis: Tensor, y: Tensor, found: Tensor, known: int) -> None:
    """Do the same as `spectrum._extend`."""
    block = triton.next_power_of_2(len(y))
    _extend_kernel[(1,)](
        basis, y, found, y.new_empty(known), found.stride(0), known, len(y), ROWS=HELD // block, BLOCK=block,
        num_warps=WARPS,
    )  # fmt: skip


@jit(do_not_specialize=["known"])
def _extend_kernel(
    basis, y, found, scratch, stride, known, dim, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < dim
    rest = tl.load(y + columns, mask=inside, other=0.0)
    for start in range(0, known, ROWS):
        row = start + tl.arange(0, ROWS)
        held = (row < known)[:, None] & inside[None, :]
        tile = tl.load(basis + row[:, None] * dim + columns[None, :], mask=held, other=0.0)
        tl.store(scratch + row, tl.sum(tile * rest[None, :], 1), mask=row < known)
    tl.debug_barrier()  # other threads wrote the products
    tl.store(found + known - 1, tl.load(scratch + known - 1))
    for start in range(0, known, ROWS):
        row = start + tl.arange(0, ROWS)
        held = (row < known)[:, None] & inside[None, :]
        tile = tl.load(basis + row[:, None] * dim + columns[None, :], mask=held, other=0.0)
        product = tl.load(scratch + row, mask=row < known, other=0.0)
        rest -= tl.sum(tile * product[:, None], 0)
    length = tl.sqrt(tl.sum(rest * rest, 0))
    tl.store(found + stride + known - 1, length)
    tl.store(basis + known * dim + columns, rest / length, mask=inside)
