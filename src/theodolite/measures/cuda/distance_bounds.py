"""Candidates for the nearest neighbours on a GPU: lower bounds on all pairwise distances from tensor cores.

A float32 number is the sum of three bfloat16 numbers up to its last bit, so six products of bfloat16 matrices,
summed in float32, give a float32 product at the speed of tensor cores. Norms are appended as further columns, so
that one product per block of rows gives the bounds.
"""

from __future__ import annotations

import torch
from torch import Tensor

CUDA_ROWS = 4096
"""Rows of a block of products: 320 MB of bounds for 20,000 points."""
CUDA_KEPT = 4
"""Smallest bounds kept per row; each takes one more pass over the block."""


def is_supported(points: Tensor) -> bool:
    """Return whether the device and the torch version support this, and whether there are enough points."""
    if not points.is_cuda or len(points) < 2 * CUDA_KEPT or torch.version.cuda is None:
        return False
    return torch.cuda.get_device_capability(points.device) >= (8, 0) and hasattr(torch, "_scaled_mm")


def cuda_slack(dim: int) -> float:
    """Return s such that |computed - true| <= s (|x|^2 + |y|^2): six products of dim terms, summed in float32.

    Tensor cores may truncate instead of rounding, so a sum of k terms errs by at most k 2^-23 of the sum of their
    sizes, here 2 |x||y| + |x|^2 + |y|^2 <= 2 (|x|^2 + |y|^2). The error of the three parts, the rounding of the
    norms and the columns that hold them are covered by the 64 added.
    """
    return 2 * (6 * dim + 64) * 2.0**-23


def smallest_bounds(points: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return each point's smallest lower bounds on squared distances, ascending, and the index of the other point.

    points: (n, dim) float32, norms: (n,) squared norms minus the slack, float32. Both results (n, KEPT).
    """
    ones = torch.ones_like(norms)[:, None]
    left = _parts(torch.cat([-2 * points, ones, norms[:, None]], 1))
    right = _parts(torch.cat([points, norms[:, None], ones], 1))
    a = _aligned(torch.cat([left[i] for i, _ in _ORDER], 1))
    b = _aligned(torch.cat([right[j] for _, j in _ORDER], 1)).T
    bounds, others = [], []
    for start in range(0, len(points), CUDA_ROWS):
        block = torch.mm(a[start : start + CUDA_ROWS], b, out_dtype=torch.float32)
        rows = torch.arange(len(block), device=block.device)
        block[rows, rows + start] = torch.inf
        found = []
        for _ in range(CUDA_KEPT):
            values, columns = block.min(1)
            block[rows, columns] = torch.inf
            found.append((values, columns))
        bounds.append(torch.stack([values for values, _ in found], 1))
        others.append(torch.stack([columns for _, columns in found], 1))
    return torch.cat(bounds), torch.cat(others)


_ORDER = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0))
"""Which parts are multiplied; the omitted products are below 2^-25 of the total."""


def _aligned(x: Tensor) -> Tensor:
    """Return x padded with zero columns to a multiple of 64, on which tensor cores are three times as fast."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % 64))


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return three bfloat16 matrices whose sum is x up to its last bit."""
    first = x.bfloat16()
    remainder = x - first.float()
    second = remainder.bfloat16()
    return first, second, (remainder - second.float()).bfloat16()
