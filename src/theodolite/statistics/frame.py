"""The frame: what the statistics of one layer agree on before the first vector arrives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Frame:
    """A layer's fixed centre, its bound between ordinary and massive norms, and the size of its sample.

    Squares are summed about the centre, which the pilot put near the middle of the ordinary vectors: sums about
    a distant origin would lose the digits that the variance is made of.
    """

    centre: Tensor  # (dim,) float32
    massive_above: float = math.inf  # a norm above this is massive
    apart_first: bool = True
    apart_massive: bool = True
    sample_size: int = 4096
    contextuality: bool = False  # whether to keep what self-similarity and its kin need
    spread: float = 0.0  # a typical |x - c|, where the pilot told it; only how fast sums are taken depends on it
    occurrences: tuple[int, int] = (512, 32)  # then also: of how many units to keep how many vectors each

    @property
    def dim(self) -> int:
        """The width of the layer."""
        return int(self.centre.shape[0])
