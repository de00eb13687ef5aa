"""The vectors of one text in order: the entropy of their directions, and the angles between their steps."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def matrix_entropy(x: Tensor) -> float:
    """Return the entropy of the eigenvalues of x x^T over its trace, as a share of the largest possible.

    The largest possible is log(min(rows, dim)). NaN for fewer than two rows or coordinates, or if all are 0.
    (rows, dim) float64

    >>> round(matrix_entropy(torch.eye(3, dtype=torch.float64)), 6)
    1.0
    >>> round(matrix_entropy(torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double()), 6)
    0.0
    """
    size = min(x.shape)
    largest = float(x.abs().max()) if x.numel() else 0.0
    if size < 2 or largest == 0:
        return float("nan")
    scaled = x / largest  # squares neither overflow nor underflow
    gram = scaled @ scaled.T if len(x) == size else scaled.T @ scaled
    values = torch.linalg.eigvalsh(gram).clamp_(min=0)
    share = values / values.sum()
    entropy = -torch.special.xlogy(share, share).sum()
    return min(1.0, max(0.0, float(entropy) / float(np.log(size))))


def turning_angles(x: Tensor) -> Tensor:
    """Return the angle in degrees between each step x_{k+1} - x_k and the next; NaN if a step is 0.

    (positions, dim) float64 -> (positions - 2,)

    >>> turning_angles(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]).double()).tolist()
    [90.0, 0.0]
    """
    largest = float(x.abs().max()) if x.numel() else 0.0
    steps = (x / (largest or 1.0)).diff(dim=0)
    norms = torch.linalg.vector_norm(steps, dim=1, keepdim=True)
    units = steps / norms  # NaN where the step is 0
    # The arc tangent is exact for small angles and for half turns, where the arc cosine loses half of the digits.
    apart = torch.linalg.vector_norm(units[1:] - units[:-1], dim=1)
    along = torch.linalg.vector_norm(units[1:] + units[:-1], dim=1)
    return torch.rad2deg(2 * torch.atan2(apart, along))
