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
    flat = states.flatten(0, -2).double()
    norms = flat.norm(dim=1)
    known = norms > 0
    total = (flat[known] / norms[known, None]).sum(dim=0)
    return Lengths(
        float(norms.mean()),
        float(flat.mean(dim=0).norm()),
        float(norms.square().mean().sqrt()),
        mean_cosine(int(known.sum()), total.numpy()),
    )


def by_head(vectors: Tensor) -> list[Lengths]:
    """Measure queries or keys of each head. (sequences, heads, positions, width)"""
    return [lengths(vectors[:, head]) for head in range(vectors.shape[1])]


def mean_of_heads(vectors: Tensor) -> Tensor:
    """Return each head's mean in float64. (sequences, heads, positions, width) -> (heads, width)"""
    return torch.stack([vectors[:, head].double().mean(dim=(0, 1)) for head in range(vectors.shape[1])])
