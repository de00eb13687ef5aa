"""Parting: from which layer on two states are as far from each other as random ones may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

PARTED = 0.05
"""Two states have parted where at least this share of random pairs of different tokens are nearer."""


@formula(
    "parting/nearer",
    "trace.nearer_different",
    "trace.nearer_same",
    definition="Share of the reference's pairs of tokens (of different ones; of one token in two contexts) that "
    "are nearer to each other than these two states.",
    cost="from the sorted distances of the reference",
    citation="here; the question of Luisto 2024, section 4.3",
)
def nearer(sorted_distances: NDArray[np.float64], distance: float) -> float:
    """Return the share of the reference's pairs that are nearer than this; NaN without pairs.

    >>> nearer(np.array([1.0, 2.0, 3.0, 4.0]), 2.5)
    0.5
    """
    if not len(sorted_distances) or np.isnan(distance):
        return float("nan")
    return float(np.searchsorted(sorted_distances, distance, side="left") / len(sorted_distances))


@formula(
    "parting/layer",
    "trace.parted_at",
    "trace.parted_for_good",
    definition="The first layer at which nearer_different is 0.05 or more, and the first from which on it always "
    "is.",
    cost="from nearer_different",
    citation="here; the question of Luisto 2024, section 4.3",
)
def parted_layers(layers: NDArray[np.int64], parted: NDArray[np.bool_]) -> tuple[int | None, int | None]:
    """Return the first layer that is parted, and the first from which on all are; None for never. Both (layers,)

    >>> parted_layers(np.arange(5), np.array([False, True, False, True, True]))
    (1, 3)
    """
    if not parted.any():
        return None, None
    together = np.flatnonzero(~parted)
    stays = int(together[-1]) + 1 if len(together) else 0
    return int(layers[parted.argmax()]), int(layers[stays]) if stays < len(layers) else None
