"""Energy distance: how far two clouds are apart as wholes, not only in their means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
TIES = 1e-12


class Energy(NamedTuple):
    """2 E|x - y| - E|x - x'| - E|y - y'|, the same over 2 E|x - y| (0 to 1), and its p."""

    distance: float
    share: float
    p: float


@formula(
    "energy-distance",
    "clouds.energy",
    "clouds.energy_share",
    "clouds.energy_p",
    definition="2 E|x - y| - E|x - x'| - E|y - y'| over all pairs of vectors, a vector with itself included; "
    "energy_share is over 2 E|x - y|; energy_p the share of relabellings that give as much.",
    cost="all pairwise distances, and one product of them with a column a relabelling",
    citation="Szekely and Rizzo, Testing for equal distributions in high dimension, 2004",
)
def energy(distances: Array, labels: NDArray[np.bool_], relabelled: NDArray[np.bool_]) -> Energy:
    """Return the energy distance of the two sides of `labels` and its p; NaN where a side is empty.

    distances: (n, n); labels: (n,); relabelled: (permutations, n), each with as many of both as `labels` has.
    """
    sides = int(labels.sum()), int((~labels).sum())
    if min(sides) == 0:
        return Energy(*(float("nan"),) * 3)
    every = np.vstack([labels, relabelled]).T.astype(np.float64)  # (n, 1 + permutations)
    products = distances @ every
    inside = np.einsum("np,np->p", every, products)
    reach = products.sum(axis=0)  # from each vector of one side to all others
    between = reach - inside
    outside = float(distances.sum()) - inside - 2 * between
    mean = 2 * between / (sides[0] * sides[1])
    values = mean - inside / sides[0] ** 2 - outside / sides[1] ** 2
    values = np.maximum(values, 0.0)  # it is never negative but for rounding
    share = float(values[0] / mean[0]) if mean[0] > 0 else float("nan")
    return Energy(float(values[0]), share, float((values >= values[0] - TIES * mean.max()).mean()))
