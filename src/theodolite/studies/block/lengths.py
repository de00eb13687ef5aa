"""How long states are and how much they lean the same way: the numbers told of both ends of a block."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.measures.cosine import mean_cosine


class Lengths(NamedTuple):
    """Of many states: the mean of their norms, the norm of their mean, and the mean cosine of all pairs.

    The paper writes of the first two as one; they are the same only where all states are.
    """

    mean_norm: float
    norm_of_mean: float
    rms_norm: float
    mean_cosine: float


def lengths(states: Tensor) -> Lengths:
    """Measure states in float64. (..., dim); zero vectors have no direction and no part in the cosine."""
    return _measured(states.flatten(0, -2)[None])[0]


def by_head(vectors: Tensor) -> list[Lengths]:
    """Measure queries or keys of each head. (sequences, heads, positions, width)"""
    return _measured(vectors.transpose(0, 1).flatten(1, 2))


def mean_of_heads(vectors: Tensor) -> Tensor:
    """Return each head's mean in float64. (sequences, heads, positions, width) -> (heads, width)"""
    wide = vectors.transpose(0, 1).flatten(1, 2).double()
    return _weighted(torch.full(wide.shape[:2], 1 / wide.shape[1], dtype=torch.float64), wide)


def _measured(groups: Tensor) -> list[Lengths]:
    """Measure every group of vectors. (groups, vectors, dim)"""
    wide = groups.double()
    norms = torch.linalg.vector_norm(wide, dim=-1)
    mean = _weighted(torch.full_like(norms, 1 / norms.shape[1]), wide)
    directions = _weighted(torch.where(norms > 0, 1 / norms, 0.0), wide).numpy()
    counts = (norms > 0).sum(dim=1).tolist()
    told = zip(norms.mean(dim=1), mean.norm(dim=1), norms.square().mean(dim=1).sqrt(), strict=True)
    return [
        Lengths(float(norm), float(length), float(rms), mean_cosine(count, total))
        for (norm, length, rms), count, total in zip(told, counts, directions, strict=True)
    ]


def _weighted(weights: Tensor, vectors: Tensor) -> Tensor:
    """Sum vectors times weights, as a product: far quicker than a mean. (groups, n), (groups, n, dim)"""
    return torch.bmm(weights[:, None], vectors)[:, 0]
