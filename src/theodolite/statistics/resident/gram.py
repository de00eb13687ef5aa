"""The product of a batch with itself, through the matrix units, to the accuracy of float32 about the centre.

Half-precision states are multiplied as they are: each product of two is exact in float32, and only sums round.
What sums lose is a share of x_i x_j, so far coordinates would drown the others: those few, the ones whose centres
together are longer than the spread of the layer, are centred first, and what that leaves is told in two numbers of
half precision each, the second in a column of its own behind the others. Where that concerns more than a quarter
of the coordinates, it is done to all. float32 states are centred and multiplied in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite.pinned import sent

CHUNK = 2048
"""Rows whose products are summed in float32; the matrix units cut off what they cannot hold, 3e-6 in so many."""
ROOM = 2**29  # bytes of partial products
STEP = 64  # the rows of a chunk are a multiple of it
MULTIPLE = 16  # the matrix units want columns in sixteens
HALF = (torch.bfloat16, torch.float16)


def far_coordinates(centre: Tensor, spread: float) -> Tensor:
    """Return the coordinates to be centred: the fewest without which the centre is no longer than the spread.

    spread: a typical |x - c|; 0 where unknown, and then all are far that are not 0.

    Taken in sixteens, as the matrix units want them.

    >>> centre = torch.zeros(128).index_fill(0, torch.tensor([5]), 3000.0)
    >>> far = far_coordinates(centre, spread=1.0)
    >>> len(far), 5 in far
    (16, True)
    """
    squares, order = centre.double().square().sort(descending=True)
    rest = squares.flip(0).cumsum(0).flip(0)  # of this coordinate and all nearer ones
    far = order[rest > spread**2] if spread > 0 else order[squares > 0]
    if not len(far):
        return far
    more = min(-(-len(far) // MULTIPLE) * MULTIPLE, len(centre))
    far = order[:more]
    return torch.arange(len(centre)) if 4 * len(far) > len(centre) else far.sort().values


@dataclass(frozen=True)
class Form:
    """How rows are written down to be multiplied: `dim` columns, and `extra` for what those of far ones leave."""

    dtype: torch.dtype
    dim: int
    extra: int
    centre: Tensor  # (dim,) float64: what is left to be moved, 0 where x - c is written
    centred: Tensor  # (dim,) bool: where it is
    behind: Tensor  # (dim,) int32: the extra column of this coordinate, counted from 0; -1: it has none
    far: Tensor  # (extra,) int32: the coordinates of the extra columns
    taken: Tensor  # (dim,) float32: what is taken from the state before it is written, 0 where nothing is

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.dim + self.extra

    @property
    def all_centred(self) -> bool:
        """Say whether x - c is written everywhere, in full."""
        return self.dtype not in HALF

    @classmethod
    def of(cls, dtype: torch.dtype, centre: Tensor, far: Tensor, device: torch.device) -> Form:
        """Choose the form for states of this type; `centre` and `far` are on the processor."""
        dim = len(centre)
        if dtype not in HALF or (dtype == torch.float16 and len(far)):  # whose range x - c may leave
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            none = torch.full((dim,), -1, dtype=torch.int32)
            zero, everywhere = torch.zeros(dim, dtype=torch.float64), torch.ones(dim, dtype=torch.bool)
            parts = (zero, everywhere, none, none[:0], centre.float())
            return cls(wide, dim, 0, *(sent(part, device) for part in parts))
        behind = torch.full((dim,), -1, dtype=torch.int32)
        behind[far] = torch.arange(len(far), dtype=torch.int32)
        centred = behind >= 0
        left = torch.where(centred, 0.0, centre.double())
        parts = (left, centred, behind, far.int(), torch.where(centred, centre.float(), 0.0))
        return cls(dtype, dim, len(far), *(sent(part, device) for part in parts))


@dataclass(frozen=True)
class Sheet:
    """Rows written down: the other positions, then the first, each filled up with 0 to whole chunks."""

    rows: Tensor  # (chunks, rows of a chunk, width)
    chunks: tuple[range, range]  # of the others, of the first
    gap: int  # rows of 0 between the two

    @classmethod
    def room(cls, form: Form, others: int, first: int, device: torch.device) -> Sheet:
        """Return a sheet for so many rows, with nothing written yet."""
        chunk = min(CHUNK, -(-max(others, first) // STEP) * STEP)
        before, after = -(-others // chunk), -(-first // chunk)
        rows = torch.empty((before + after) * chunk, form.width, dtype=form.dtype, device=device)
        chunks = range(before), range(before, before + after)
        return cls(rows.view(-1, chunk, form.width), chunks, before * chunk - others)

    def gaps(self, rows: int) -> list[tuple[int, int]]:
        """Return from where to where, counted without chunks, nothing is written of so many rows."""
        whole = self.rows.shape[0] * self.rows.shape[1]
        begin = self.chunks[0].stop * self.rows.shape[1]
        both = (begin - self.gap, begin), (rows + self.gap, whole)
        return [(start, stop) for start, stop in both if stop > start]

    def place(self, rows: Tensor, others: int) -> Tensor:
        """Return where in the sheet, counted without chunks, these rows of a layout stand."""
        return torch.where(rows < others, rows, rows + self.gap)

    def rounds(self, dim: int) -> Iterator[tuple[Tensor, list[tuple[int, slice, bool]]]]:
        """Yield chunks as many at a time as products have room for, and of which part which are, if its last."""
        at_once = max(ROOM // (4 * dim * self.rows.shape[2]), 1)
        for start in range(0, len(self.rows), at_once):
            stop = min(start + at_once, len(self.rows))
            held = []
            for part, chunks in enumerate(self.chunks):
                low, high = max(chunks.start, start), min(chunks.stop, stop)
                if low < high:
                    held.append((part, slice(low - start, high - start), high == chunks.stop))
            yield self.rows[start:stop], held


def products(chunks: Tensor, form: Form) -> Tensor:
    """Return, chunk by chunk, the products of the coordinates' columns with all. (chunks, dim, width)"""
    left = chunks[:, :, : form.dim].transpose(1, 2)
    if chunks.dtype not in HALF:
        return _in_full(left, chunks)
    if chunks.is_cuda:
        return torch.bmm(left, chunks, out_dtype=torch.float32)
    return torch.bmm(left.float(), chunks.float())


def add_products(
    matrix: Tensor, partial: Tensor, n: Tensor, by_coordinate: Tensor, form: Form, closing: bool
) -> None:
    """Add partial products of one part to its matrix, right on and above the diagonal.

    matrix: (dim, dim) float64, the sum of y y^T with y = x - c. partial: (chunks, dim, width). n: () rows.
    by_coordinate: (4, dim) float64, of which the sums of y and of y^2 are used: the latter are the diagonal.
    With x for what is written, y y^T = x x^T - c s^T - s c^T - n c c^T, s the sum of y; that and the diagonal come
    with the last of a part's products, which is `closing`.
    """
    total = partial.sum(dim=0, dtype=torch.float64)
    product = total[:, : form.dim]
    if form.extra:
        rest = total[:, form.dim :]
        product = product.index_add(1, form.far, rest).index_add(0, form.far, rest.T)
    if closing:
        c, s = form.centre, by_coordinate[0]
        product = product - torch.outer(c, s) - torch.outer(s + n * c, c)
    product = product.clone().fill_diagonal_(0.0)
    matrix += product
    if closing:
        matrix.diagonal().add_(by_coordinate[2])


def _in_full(left: Tensor, right: Tensor) -> Tensor:
    """Multiply float32 as float32, whatever the process allows itself elsewhere."""
    if not left.is_cuda:
        return torch.bmm(left, right)
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return torch.bmm(left, right)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed
