"""The frame: settings that all statistics of a layer share, fixed before the first batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from theodolite.statistics.rare_units import KeptUnits


@dataclass(frozen=True, slots=True)
class Frame:
    """The fixed centre of a layer, its threshold for massive norms, and the sizes of its samples.

    Squares are summed about the centre, which the pilot chooses near the middle of the ordinary vectors: sums
    about a distant origin would lose the digits of the variance.
    """

    centre: Tensor  # (dim,) float32
    massive_above: float = math.inf  # a norm above this is massive
    separate_first: bool = True
    separate_massive: bool = True
    sample_size: int = 4096
    contextuality: bool = False  # whether to add the statistics for self-similarity and MEV
    layer_scores: bool = False  # whether to add the statistic for prompt entropy and curvature
    spread: float = 0.0  # a typical |x - c| from the pilot, or 0; affects only the speed on a GPU
    occurrences: tuple[int, int] = (512, 32)  # with contextuality: sampled units, vectors for each
    separate_sinks: bool = False  # whether batches are held until the positions massive at any layer are known
    frequent: tuple[int, ...] = ()  # frequent units by code or hash, whose sums are also kept by document group
    kept: KeptUnits | None = None  # the units that have a vector; None: all
    by_groups: int = 0  # groups of documents by a field of the corpus; 0: no field is given
    by_matrices: int = 0  # how many of them, from the first, have a matrix of second moments
    by_rows: int = 0  # rows of sums by group and unit that a layer may keep
    marks_sinks: bool = True  # whether a position that is massive here is a sink at the other layers
    attention_heads: int = 0  # if sums over the attention of a block are kept with this layer

    @property
    def dim(self) -> int:
        """The width of the layer."""
        return int(self.centre.shape[0])
