"""The product of a batch with itself, through the matrix units, to the accuracy of float32 about the centre.

Half-precision states are multiplied as they are: each product of two is exact in float32, and only sums round.
What sums lose is a share of x_i x_j, so far coordinates would drown the others: those few, the ones whose centres
together are longer than the spread of the layer, are centred first, and what that leaves is told in two numbers of
half precision each. Where that concerns more than a quarter of the coordinates, it is done to all.

Cost for n rows of dim d = 768, in products of n d^2 multiplications: 0.67 for the states (blocks on and above the
diagonal); 2 r/d more for r far coordinates; 1.67 if all are. float32 states: 0.67, in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

CHUNK = 2048
"""Rows whose products are summed in float32; the matrix units cut off what they cannot hold, 3e-6 in so many."""
BLOCK = 256  # columns multiplied at a time; only blocks on and above the diagonal are
ROOM = 2**28  # bytes of partial products
MULTIPLE = 8  # the matrix units want columns in eights
HALF = (torch.bfloat16, torch.float16)


def far_coordinates(centre: Tensor, spread: float) -> Tensor:
    """Return the coordinates to be centred: the fewest without which the centre is no longer than the spread.

    spread: a typical |x - c|; 0 where unknown, and then all are far that are not 0.

    Taken in eights, as the matrix units want them.

    >>> centre = torch.zeros(64).index_fill(0, torch.tensor([5]), 3000.0)
    >>> far = far_coordinates(centre, spread=1.0)
    >>> len(far), 5 in far
    (8, True)
    """
    squares, order = centre.double().square().sort(descending=True)
    rest = squares.flip(0).cumsum(0).flip(0)  # of this coordinate and all nearer ones
    far = order[rest > spread**2] if spread > 0 else order[squares > 0]
    if not len(far):
        return far
    more = min(-(-len(far) // MULTIPLE) * MULTIPLE, len(centre))
    far = order[:more]
    return torch.arange(len(centre)) if 4 * len(far) > len(centre) else far.sort().values


class Gram:
    """Multiplies batches of one layer; holds the centre and which coordinates are far."""

    def __init__(self, centre: Tensor, spread: float, device: torch.device) -> None:
        far = far_coordinates(centre, spread)
        self.all_far = len(far) == len(centre)
        near = torch.ones(len(centre), dtype=torch.float64)
        near[far] = 0.0
        self.centre, self.far, self.near = (one.to(device) for one in (centre.double(), far, near))
        self.centred = torch.zeros_like(self.centre), torch.ones_like(self.near)  # what is centred needs no moving

    def add(
        self,
        matrix: Tensor,
        x: Tensor,
        keep: Tensor,
        n: Tensor,
        sums: Tensor,
        squares: Tensor,
        add_block: AddBlock,
    ) -> None:
        """Add the sum of (x - c)(x - c)^T over the rows kept, right on and above the diagonal.

        matrix: (dim, dim) float64. x: (rows, dim), zero in rows that are not kept. keep: (rows,) bool.
        n: () int64, rows kept. sums: (dim,) of x - c, squares: (dim,) of (x - c)^2, float64: the diagonal.
        """
        if x.dtype not in HALF or (x.dtype == torch.float16 and len(self.far)):  # whose range x - c may leave
            x = x.float() if x.dtype == torch.float16 else x
            y = torch.where(keep[:, None], x - self.centre.to(x.dtype), 0.0)
            _add_upper(matrix, y, n, sums, *self.centred, add_block)
        elif self.all_far:
            y = torch.where(keep[:, None], x.float() - self.centre.float(), 0.0)
            high, low = _parts(y, x.dtype)
            _add_upper(matrix, high, n, sums, *self.centred, add_block)
            crossed = product(low, high)
            crossed.fill_diagonal_(0.0)
            matrix += crossed
            matrix += crossed.T
        else:
            _add_upper(matrix, x, n, sums, self.centre, self.near, add_block)
            if len(self.far):
                self._add_far(matrix, x, keep, sums)
        matrix.diagonal().add_(squares)

    def _add_far(self, matrix: Tensor, x: Tensor, keep: Tensor, sums: Tensor) -> None:
        """Add the lines and columns of the far coordinates, each centred by itself."""
        count, c = len(self.far), self.centre
        y = torch.where(keep[:, None], x[:, self.far].float() - c[self.far].float(), 0.0)
        both = torch.cat(_parts(y, x.dtype), dim=1)
        by_all = product(both, x)
        # sum of y_i (x_j - c_j), and 0 where j is far too
        lines = (by_all[:count] + by_all[count:] - torch.outer(sums[self.far], c)) * self.near
        matrix.index_add_(1, self.far, lines.T)
        among = product(both, both[:, :count].contiguous())
        together = among[:count] + among[count:] + among[count:].T
        together.fill_diagonal_(0.0)
        matrix.index_add_(0, self.far, lines.index_copy_(1, self.far, together))


AddBlock = Callable[[Tensor, Tensor, Tensor | None, int, Tensor, Tensor, Tensor, Tensor], None]


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
    """Add partial products of uncentred columns from `start` on, moved to the centre, without the diagonal.

    partial: (chunks, p, q) of columns start ... start + p with columns start ... start + q; rest: (1, p, q).
    y y^T = x x^T - c s^T - s c^T - n c c^T with s the sum of y. Coordinates where `near` is 0 are left out.
    """
    total = partial.sum(dim=0, dtype=torch.float64)
    if rest is not None:
        total += rest[0]
    rows, columns = slice(start, start + partial.shape[1]), slice(start, start + partial.shape[2])
    s, c = sums, centre
    total -= torch.outer(c[rows], s[columns]) + torch.outer(s[rows] + n * c[rows], c[columns])
    total *= near[rows, None] * near[columns]
    total.fill_diagonal_(0.0)
    matrix[rows, columns] += total


def _add_upper(
    matrix: Tensor, x: Tensor, n: Tensor, sums: Tensor, centre: Tensor, near: Tensor, add_block: AddBlock
) -> None:
    """Add the blocks of x^T x on and above the diagonal."""
    dim = x.shape[1]
    for start in range(0, dim, BLOCK):
        left, right = x[:, start : start + BLOCK], x[:, start:]
        partial, rest = _chunks(left, right)
        add_block(matrix, partial, rest, start, n, sums, centre, near)


def _chunks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a^T b by chunk of rows, and for the rows that are left over. (chunks, p, q), (1, p, q)"""
    whole = len(a) // CHUNK
    rest = _products(a[whole * CHUNK :].T[None], b[whole * CHUNK :][None]) if len(a) % CHUNK else None
    left, right = (one[: whole * CHUNK].view(whole, CHUNK, one.shape[1]) for one in (a, b))
    size = 4 * a.shape[1] * b.shape[1]
    if not whole:
        return torch.zeros(0, a.shape[1], b.shape[1], device=a.device), rest
    if whole * size <= ROOM:
        return _products(left.transpose(1, 2), right), rest
    at_once = max(ROOM // size, 1)  # where not all fit, what comes back is added up already
    groups = [
        _products(left[at : at + at_once].transpose(1, 2), right[at : at + at_once]).sum(0, dtype=torch.float64)
        for at in range(0, whole, at_once)
    ]
    return torch.stack(groups), rest


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a^T b, in float32 within a chunk of rows and in float64 between. (rows, p), (rows, q) -> (p, q)"""
    partial, rest = _chunks(a, b)
    total = partial.sum(dim=0, dtype=torch.float64)
    return total if rest is None else total + rest[0]


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrix by matrix, the result in float32 or wider."""
    if left.dtype not in HALF:
        return _in_full(left, right)
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


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


def _parts(y: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return two half-precision matrices that add up to y, but for 2^-17 of it (bfloat16)."""
    high = y.to(dtype)
    return high, (y - high.float()).to(dtype)
