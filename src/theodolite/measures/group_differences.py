"""Differences between groups of documents, all pairs at once, with errors that resample documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula
from theodolite.measures.resampling import MIN_GROUPS

Array = NDArray[np.float64]
Z = 1.959964  # of a 95% interval
COMPARED = ("q", "m", "v", "mean_cosine")
"""Numbers of one group whose differences are computed."""
PAIRED = ("cosine_between", "centroid_cosine", "centroid_distance", "centroid_separation")
"""Numbers of two groups."""


class FieldSums(NamedTuple):
    """Sums of a population by group of a field, and for the jackknife by document group.

    With an axis of document groups: (groups, document groups, ...); sums are about the centre.
    """

    n: NDArray[np.int64]
    sum: Array  # (..., dim)
    squares: Array
    directed: NDArray[np.int64]  # vectors other than 0
    directions: Array  # (..., dim), sum of x/|x|

    def total(self) -> FieldSums:
        """Return the sums over all documents. (groups, ...)"""
        return FieldSums(*(part.sum(axis=1) for part in self))

    def without(self, documents: int) -> FieldSums:
        """Return the sums without one document group. (groups, ...)"""
        kept = np.arange(self.n.shape[1]) != documents
        return FieldSums(*(part[:, kept].sum(axis=1) for part in self))


@formula(
    "group-difference/jackknife",
    *(f"group_differences.{name}_difference{end}" for name in COMPARED for end in ("", "_se", "_low", "_high")),
    definition="The number of the group `other` minus that of `group`. The interval is the difference ± 1.96 "
    "standard errors; the error is a jackknife over the 20 groups of documents that a hash assigns, left out of "
    "both at the same time.",
    cost="exact; 20 pairs of vectors per group",
    citation="Quenouille 1956; Tukey 1958",
    error="jackknife over 20 document groups",
)
def group_numbers(sums: FieldSums, centre: Array) -> Array:
    """Return COMPARED of each group; NaN if undefined. -> (COMPARED, groups)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(sums.n > 0, sums.n, np.nan)
        mean = sums.sum / n[:, None]
        v = np.maximum(sums.squares / n - np.square(mean).sum(axis=1), 0.0)
        m = np.square(mean + centre).sum(axis=1)
        directed = np.where(sums.directed > 1, sums.directed, np.nan)
        cosine = (np.square(sums.directions).sum(axis=1) - directed) / (directed * (directed - 1))
    return np.stack([m + v, m, v, cosine])


@formula(
    "cosine-between/all-pairs",
    "group_differences.cosine_between",
    definition="Mean of cos(x, y) over all x of one group and all y of the other: the product of their mean unit "
    "vectors.",
    cost="exact; one vector per group",
    citation="Ethayarajh 2019, there within one group",
    error="jackknife over 20 document groups (cosine_between_se)",
)
def cosines_between(directed: NDArray[np.int64], directions: Array) -> Array:
    """Return the mean cosine between each two groups from counts and sums of unit vectors. -> (groups, groups)

    >>> float(cosines_between(np.array([1, 2]), np.array([[1.0, 0.0], [1.0, 1.0]]))[0, 1])
    0.5
    """
    with np.errstate(invalid="ignore"):
        means = directions / np.where(directed > 0, directed, np.nan)[:, None]
    return np.asarray(means @ means.T)


@formula(
    "centroid-cosine/groups",
    "group_differences.centroid_cosine",
    definition="Cosine of the mean vectors of two groups.",
    cost="exact; one vector per group",
    citation="Theodolite",
    error="jackknife over 20 document groups (centroid_cosine_se)",
)
def centroid_cosines(means: Array) -> Array:
    """Return the cosine of each two means. (groups, dim) -> (groups, groups)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        units = means / np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(units @ units.T)


@formula(
    "centroid-distance/groups",
    "group_differences.centroid_distance",
    "groups.nearest_distance",
    definition="Distance of the mean vectors of two groups.",
    cost="exact; one vector per group",
    citation="Theodolite",
    error="jackknife over 20 document groups (centroid_distance_se)",
)
def squared_centroid_distances(means: Array) -> Array:
    """Return the squared distance of each two means, which should be about a centre. -> (groups, groups)"""
    known = means[np.isfinite(means).all(axis=1)]
    near = means - (known.mean(axis=0) if len(known) else 0.0)  # so that no digits cancel
    lengths = np.square(near).sum(axis=1)
    distances = lengths[:, None] + lengths[None] - 2 * near @ near.T
    np.fill_diagonal(distances, np.where(np.isfinite(lengths), 0.0, np.nan))
    return np.asarray(np.maximum(distances, 0.0))


class PairNumbers(NamedTuple):
    """Numbers of all pairs of groups with their jackknife errors. (numbers, groups, groups) each"""

    values: dict[str, Array]  # by name of COMPARED and PAIRED
    errors: dict[str, Array]


@formula(
    "centroid-separation/groups",
    "group_differences.centroid_separation",
    definition="Squared distance of the means of two groups over the mean of their variances V. The distance is "
    "corrected for the noise of the means by the jackknife, g d - (g - 1) mean d_i, without which small groups "
    "seem apart; so the number may be slightly negative.",
    cost="exact sums; 20 vectors per group",
    citation="Quenouille 1956, for the correction",
    error="jackknife over 20 document groups (centroid_separation_se)",
)
def compare_groups(sums: FieldSums, centre: Array) -> PairNumbers:
    """Return the differences `second - first` of COMPARED, and PAIRED, of all pairs of groups.

    sums: by group and document group, centre: (dim,). Pairs with fewer than ten non-empty document groups on a
    side have no errors and no separation. O(20 groups^2 dim).
    """
    values = _pairs(sums.total(), centre)
    held = sums.n > 0
    documents = np.flatnonzero(held.any(axis=0))
    without = [_pairs(sums.without(int(one)), centre) for one in documents]
    both = (held[:, None] | held[None]).transpose(2, 0, 1)[documents]  # a group that neither has changes nothing
    count = both.sum(axis=0)
    enough = held.sum(axis=1) >= MIN_GROUPS
    known = enough[:, None] & enough[None]
    stacked = np.stack(without) if without else np.zeros((0, *values.shape))
    found = dict(zip((*COMPARED, *PAIRED), values, strict=True))
    errors: dict[str, Array] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(both[:, None], stacked, 0.0).sum(axis=0) / count
        spread = np.where(both[:, None], np.square(stacked - mean), 0.0).sum(axis=0)
        error = np.where(known, np.sqrt((count - 1) / count * spread), np.nan)
        corrected = np.where(known, count * values[-1] - (count - 1) * mean[-1], np.nan)
    errors = dict(zip((*COMPARED, *PAIRED), error, strict=True))
    found["centroid_separation"] = corrected
    return PairNumbers(found, errors)


def _pairs(sums: FieldSums, centre: Array) -> Array:
    """Return the differences of COMPARED, and PAIRED without the correction. -> (numbers, groups, groups)"""
    own = group_numbers(sums, centre)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums.sum / np.where(sums.n > 0, sums.n, np.nan)[:, None]
        squared = squared_centroid_distances(means)
        separation = squared / ((own[2][:, None] + own[2][None]) / 2)
    cosines = centroid_cosines(means + centre)
    paired = (cosines_between(sums.directed, sums.directions), cosines, np.sqrt(squared), separation)
    return np.stack([*(own[:, None, :] - own[:, :, None]), *paired])
