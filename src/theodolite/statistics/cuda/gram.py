"""The Gram matrix of a batch on the matrix units of a GPU, as accurate as float32 about the centre.

Half-precision states are multiplied as they are: each product of two is exact in float32, and only the sums round.
This rounding is relative to x_i x_j, so coordinates with a centre far from 0 would spoil the others. Far
coordinates are the fewest without which the centre is no longer than the spread of the layer. They are centred
first, and the result is written as the sum of two half-precision numbers, the second of which, the remainder, is
in a matrix of its own. If more than a quarter of the coordinates are far, all are treated in this way. float32
states are centred and multiplied in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.devices import to_device

CHUNK, CHUNK_OF_WIDE, WIDE = 2048, 4096, 2048
"""Rows whose products are summed in float32, and the same for vectors of at least `WIDE` coordinates, whose sums
take long to add. The matrix units truncate about 3e-6 over 2,048 rows."""
PARTIAL_BYTES = 5 * 2**28  # for partial products at a time
STEP = 64  # the number of rows of a chunk is a multiple of this
MULTIPLE = 16  # the matrix units require multiples of sixteen columns
HALF = (torch.bfloat16, torch.float16)


def far_coordinates(centre: Tensor, spread: float) -> Tensor:
    """Return the coordinates to be centred: the fewest without which the centre is no longer than the spread.

    spread: a typical |x - c|; 0 if unknown, and then every coordinate whose centre is not 0 is far.

    Their number is rounded up to a multiple of sixteen for the matrix units.

    >>> centre = torch.zeros(128).index_fill(0, torch.tensor([5]), 3000.0)
    >>> far = far_coordinates(centre, spread=1.0)
    >>> len(far), 5 in far
    (16, True)
    """
    squares, order = centre.double().square().sort(descending=True)
    remaining = squares.flip(0).cumsum(0).flip(0)  # the sum over this coordinate and all nearer ones
    far = order[remaining > spread**2] if spread > 0 else order[squares > 0]
    if not len(far):
        return far
    count = min(-(-len(far) // MULTIPLE) * MULTIPLE, len(centre))
    far = order[:count]
    return torch.arange(len(centre)) if 4 * len(far) > len(centre) else far.sort().values


@dataclass(frozen=True)
class GramFormat:
    """The format of rows to be multiplied: `dim` columns, and `extra` remainders of far coordinates."""

    dtype: torch.dtype
    dim: int
    extra: int
    centre: Tensor  # (dim,) float64: the centre still to be subtracted, 0 where x - c is written
    centred: Tensor  # (dim,) bool: where x - c is written
    remainder: Tensor  # (dim,) int32: the column of the remainder of each coordinate, or -1
    far: Tensor  # (extra,) int32: the coordinates of the remainders
    shift: Tensor  # (dim,) float32: subtracted from the state before it is written, or 0

    @property
    def all_centred(self) -> bool:
        """Whether x - c is written for all coordinates, in full precision."""
        return self.dtype not in HALF

    @classmethod
    def of(cls, dtype: torch.dtype, centre: Tensor, far: Tensor, device: torch.device) -> GramFormat:
        """Choose the format for states of this dtype; `centre` and `far` are on the CPU."""
        dim = len(centre)
        if dtype not in HALF or (dtype == torch.float16 and len(far)):  # x - c may exceed the range of float16
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            none = torch.full((dim,), -1, dtype=torch.int32)
            zero, all_centred = torch.zeros(dim, dtype=torch.float64), torch.ones(dim, dtype=torch.bool)
            parts = (zero, all_centred, none, none[:0], centre.float())
            return cls(wide, dim, 0, *(to_device(part, device) for part in parts))
        remainder = torch.full((dim,), -1, dtype=torch.int32)
        remainder[far] = torch.arange(len(far), dtype=torch.int32)
        centred = remainder >= 0
        uncentred = torch.where(centred, 0.0, centre.double())
        parts = (uncentred, centred, remainder, far.int(), torch.where(centred, centre.float(), 0.0))
        return cls(dtype, dim, len(far), *(to_device(part, device) for part in parts))


def chunk_rows(dim: int) -> int:
    """Return the number of rows whose products are summed in float32."""
    return CHUNK_OF_WIDE if dim >= WIDE else CHUNK


class Chunks(NamedTuple):
    """Chunks of equal length: of other positions, then of first positions, each padded to complete chunks."""

    length: int  # rows of a chunk
    others: range
    first: range
    gap: int  # rows of padding between the two

    @property
    def rows(self) -> int:
        """All rows, with the padding."""
        return self.first.stop * self.length

    @classmethod
    def of(cls, dim: int, others: int, first: int) -> Chunks:
        """Cut these numbers of rows of a width, with little padding."""
        most = max(others, first)
        length = -(-most // (STEP * max(-(-most // chunk_rows(dim)), 1))) * STEP
        before, after = -(-others // length), -(-first // length)
        return cls(length, range(before), range(before, before + after), before * length - others)


@dataclass(frozen=True)
class GramRows:
    """Rows to be multiplied, in chunks; the padding is 0."""

    rows: Tensor  # (chunks, rows of a chunk, dim)
    remainders: Tensor  # (chunks, rows of a chunk, extra)
    chunks: Chunks
    in_place: bool  # whether `rows` are the states themselves, until they are written

    @property
    def gap(self) -> int:
        """The rows of padding between other and first positions."""
        return self.chunks.gap

    @classmethod
    def allocate(
        cls, gram_format: GramFormat, others: int, first: int, device: torch.device, held: Tensor | None = None
    ) -> GramRows:
        """Return uninitialized memory for these numbers of rows, or the memory of `held`, if its dtype fits.

        held: (rows with padding, dim), states in the order of the layout
        """
        chunks = Chunks.of(gram_format.dim, others, first)
        in_place = held is not None and held.dtype == gram_format.dtype
        rows, remainders = (
            torch.empty(chunks.first.stop, chunks.length, columns, dtype=gram_format.dtype, device=device)
            if memory is None
            else memory.view(chunks.first.stop, chunks.length, columns)
            for columns, memory in ((gram_format.dim, held if in_place else None), (gram_format.extra, None))
        )
        return cls(rows, remainders, chunks, in_place)

    def clear_gaps(self, rows: int) -> None:
        """Set the padding to 0 for this number of rows."""
        begin = self.chunks.others.stop * self.chunks.length
        for every in (self.rows.flatten(0, 1), self.remainders.flatten(0, 1)):
            for start, stop in ((begin - self.gap, begin), (rows + self.gap, len(every))):
                if stop > start and every.shape[1]:
                    every[start:stop].zero_()

    def place(self, rows: Tensor, others: int) -> Tensor:
        """Return the positions of these rows of a layout, in a view without chunks."""
        return torch.where(rows < others, rows, rows + self.gap)

    def rounds(self, parts: Sequence[int] = (0, 1)) -> Iterator[tuple[Tensor, Tensor, int, bool]]:
        """Yield as many chunks of a part as fit in PARTIAL_BYTES, with the part and whether they are its last."""
        dim, extra = self.rows.shape[2], self.remainders.shape[2]
        at_once = max(PARTIAL_BYTES // (4 * dim * (dim + extra)), 1)
        for part in parts:
            chunks = (self.chunks.others, self.chunks.first)[part]
            for start in range(chunks.start, chunks.stop, at_once):
                stop = min(start + at_once, chunks.stop)
                yield self.rows[start:stop], self.remainders[start:stop], part, stop == chunks.stop


def products(rows: Tensor, remainders: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each chunk the products of its columns with each other, and with the remainders.

    rows: (chunks, rows of a chunk, dim) -> (chunks, dim, dim), of which only values on and above the diagonal are
    defined. remainders: (chunks, rows of a chunk, extra) -> (chunks, dim, extra).
    """
    return multiply(rows, rows), multiply(rows, remainders)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Return left^T right of matrices in pairs, with sums in float32 or wider."""
    left = left.transpose(1, 2)
    if not right.shape[2]:
        return left.new_empty(*left.shape[:2], 0, dtype=torch.float32)
    if left.dtype not in HALF:
        return _multiply_float32(left, right)
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


def add_products(
    matrix: Tensor,
    partial: Tensor,
    with_remainders: Tensor,
    n: Tensor,
    by_coordinate: Tensor,
    gram_format: GramFormat,
    last: bool,
) -> None:
    """Add the `products` of chunks of one part to its matrix; only values on and above the diagonal are defined.

    matrix: (dim, dim) float64, the sum of y y^T with y = x - c. n: () rows.
    by_coordinate: (4, dim) float64, of which the sums of y and of y^2 are used: the latter are the diagonal.
    With x for the rows as written, y y^T = x x^T - c s^T - s c^T - n c c^T, where s is the sum of y. These terms
    and the diagonal are added with the `last` products of a part.
    """
    product = partial.sum(dim=0, dtype=torch.float64)
    if gram_format.extra:
        remainder = with_remainders.sum(dim=0, dtype=torch.float64)
        product = product.index_add(1, gram_format.far, remainder).index_add(0, gram_format.far, remainder.T)
    if last:
        c, s = gram_format.centre, by_coordinate[0]
        product = product - torch.outer(c, s) - torch.outer(s + n * c, c)
    product = product.clone().fill_diagonal_(0.0)
    matrix += product
    if last:
        matrix.diagonal().add_(by_coordinate[2])


def _multiply_float32(left: Tensor, right: Tensor) -> Tensor:
    """Multiply in float32, even if TF32 is enabled in this process."""
    if not left.is_cuda:
        return torch.bmm(left, right)
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return torch.bmm(left, right)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed
