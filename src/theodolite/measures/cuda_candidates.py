"""Candidates for the nearest neighbours on a GPU: all pairs through the matrix units, and still bounds to rely on.

A float32 number is the sum of three bfloat16 ones but for its last bit, so six products of bfloat16 matrices,
summed in float32, give a float32 product at the matrix units' speed. Norms ride along as further columns: one
product a block of rows gives the bounds themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 4096
"""Rows of a block of products: 320 MB of bounds for 20,000 points."""
KEPT = 4
"""Smallest bounds of a row that are kept; finding each is one more look at the block."""


def usable(points: Tensor) -> bool:
    """Say whether this device and this torch can do it, and whether there are points enough to gain by it."""
    if not points.is_cuda or len(points) < 2 * KEPT or torch.version.cuda is None:
        return False
    return torch.cuda.get_device_capability(points.device) >= (8, 0) and hasattr(torch, "_scaled_mm")


def slack(dim: int) -> float:
    """Return s such that |computed - true| <= s (|x|^2 + |y|^2): six products of dim terms, summed in float32.

    The matrix units may cut off where the processor rounds, so a sum of k terms errs by k 2^-23 at most of the sum
    of their sizes, here 2 |x||y| + |x|^2 + |y|^2 <= 2 (|x|^2 + |y|^2). What the three parts leave out, the
    rounding of norms and the columns that carry them fit in the 64 added.
    """
    return 2 * (6 * dim + 64) * 2.0**-23


def smallest_bounds(points: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return each point's smallest lower bounds on squared distances to others, ascending, and to whom.

    points: (n, dim) float32, norms: (n,) squared norms less the slack, float32. Both results (n, KEPT).
    """
    ones = torch.ones_like(norms)[:, None]
    left = _parts(torch.cat([-2 * points, ones, norms[:, None]], 1))
    right = _parts(torch.cat([points, norms[:, None], ones], 1))
    a = _aligned(torch.cat([left[i] for i, _ in _ORDER], 1))
    b = _aligned(torch.cat([right[j] for _, j in _ORDER], 1)).T
    bounds, others = [], []
    for start in range(0, len(points), ROWS):
        block = torch.mm(a[start : start + ROWS], b, out_dtype=torch.float32)
        rows = torch.arange(len(block), device=block.device)
        block[rows, rows + start] = torch.inf
        found = []
        for _ in range(KEPT):
            values, columns = block.min(1)
            block[rows, columns] = torch.inf
            found.append((values, columns))
        bounds.append(torch.stack([values for values, _ in found], 1))
        others.append(torch.stack([columns for _, columns in found], 1))
    return torch.cat(bounds), torch.cat(others)


_ORDER = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0))
"""Which parts are multiplied; the products left out are below 2^-25 of the whole."""


def _aligned(x: Tensor) -> Tensor:
    """Return x with columns of 0 up to a multiple of 64: the matrix units are three times as fast on such."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % 64))


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three bfloat16 matrices that add up to x, but for its last bit."""
    first = x.bfloat16()
    rest = x - first.float()
    second = rest.bfloat16()
    return first, second, (rest - second.float()).bfloat16()
