"""Bins of attention logits: fixed, so that histograms of different machines can be added."""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 4  # of the mantissa: 16 bins for each power of 2
LOWEST, OCTAVES = -8, 32  # |x| below 2^-8 is in the two bins next to 0, |x| above 2^24 in the outermost ones
MAGNITUDES = OCTAVES << BITS
BINS = 2 * MAGNITUDES
"""From the most negative to the most positive logit. A bin is at most 1/16 of its logits wide."""


def bin_logits(logits: Tensor) -> Tensor:
    """Return the bin of each logit, from its sign, exponent and first four bits. float32 -> int32

    >>> bin_logits(torch.tensor([-1.0, -0.001, 0.001, 1.0, 1.07])).tolist()
    [383, 511, 512, 640, 641]
    """
    bits = logits.contiguous().view(torch.int32)
    magnitude = ((bits & 0x7FFFFFFF) >> (23 - BITS)).sub_((127 + LOWEST) << BITS).clamp_(0, MAGNITUDES - 1)
    return torch.where(bits < 0, MAGNITUDES - 1 - magnitude, MAGNITUDES + magnitude)


def bin_edges() -> Tensor:
    """Return the lower edges of all bins and the upper edge of the last. (BINS + 1,) float64

    >>> edges = bin_edges()
    >>> edges[640:642].tolist(), edges[0].item()
    ([1.0, 1.0625], -16777216.0)
    """
    magnitude = torch.arange(MAGNITUDES + 1)
    octave, step = magnitude >> BITS, magnitude & ((1 << BITS) - 1)
    edges = torch.exp2((octave + LOWEST).double()) * (1 + step.double() / (1 << BITS))
    edges[0] = 0.0
    return torch.cat([-edges.flip(0), edges[1:]])
