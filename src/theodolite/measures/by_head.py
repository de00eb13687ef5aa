"""Vectors of several heads: how long they are, how long their mean is and how much they lean one way, by head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]
KINDS = ("state", "input", "query", "key")
NUMBERS = ("norm", "mean_norm", "cosine")


class HeadSums(NamedTuple):
    """Sums over positions, by head; those of two texts add up."""

    positions: int
    directed: Floats  # (heads,) how many have a direction
    norms: Floats  # (heads,)
    total: Floats  # (heads, dim)
    units: Floats  # (heads, dim)


def head_sums(vectors: NDArray[np.floating]) -> HeadSums:
    """Return the sums of one text's vectors, in float64. (heads, positions, dim)"""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1)
    units = wide / np.where(norms == 0, 1.0, norms)[..., None]
    directed = (norms > 0).sum(axis=-1).astype(np.float64)
    return HeadSums(vectors.shape[1], directed, norms.sum(axis=-1), wide.sum(axis=1), units.sum(axis=1))


def added(sums: Sequence[HeadSums]) -> HeadSums:
    """Return the sums of several texts together; at least one."""
    arrays = (np.sum(np.stack(parts), axis=0) for parts in zip(*(each[1:] for each in sums), strict=True))
    return HeadSums(sum(each.positions for each in sums), *arrays)


@formula(
    "attention/by-head",
    *(f"attention.{kind}_{number}" for kind in KINDS for number in NUMBERS),
    definition="Of states as they enter the block, of what the projections read (after a norm, where one stands "
    "before), of queries and of keys as projected (before any rotation): mean norm, norm of the mean, and mean "
    "cosine of all pairs; for queries and keys of each head, then the mean over heads.",
    cost="two vectors a head",
    citation="Godey et al. 2023, sections 4.3 and 5",
    error=f"jackknife over documents ({', '.join(f'{kind}_{number}_se' for kind in KINDS for number in NUMBERS)})",
)
def leaning(sums: HeadSums) -> tuple[float, float, float]:
    """Return mean norm, norm of the mean and mean cosine, each the mean over heads; NaN where undefined.

    >>> leaning(head_sums(np.array([[[3.0, 0.0], [0.0, 4.0]]])))
    (3.5, 2.5, 0.0)
    """
    if not sums.positions:
        return (float("nan"),) * 3
    n = sums.directed
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (np.square(sums.units).sum(axis=-1) - n) / (n * (n - 1))
    cosines = np.where(n > 1, cosines, np.nan)
    return (
        float(sums.norms.mean() / sums.positions),
        float(np.linalg.norm(sums.total / sums.positions, axis=-1).mean()),
        float(cosines.mean()),
    )
