"""Separation of groups: whether vectors of one group are closer to each other than to other groups."""

from __future__ import annotations

from math import exp, lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
MAX_NUMBERS = 2**24  # numbers in a block of permutations


class WithinBetween(NamedTuple):
    """The mean over pairs within groups and over pairs between groups; NaN if there is no such pair."""

    within: float
    between: float


class PermutationTest(NamedTuple):
    """A statistic, its permutation p-value, and the smallest p-value that is possible."""

    value: float
    p: float
    p_least: float


def distances(vectors: Floats) -> Floats:
    """Return the Euclidean distances between all vectors, exactly 0 for equal vectors. (n, dim) -> (n, n)

    Computed from differences, row by row, which are accurate even with one very large coordinate.
    """
    return np.array([np.sqrt(np.square(vectors - vector).sum(1)) for vector in vectors]).reshape(len(vectors), -1)


def cosines(vectors: Floats) -> Floats:
    """Return the cosines between all vectors, NaN with a zero vector. (n, dim) -> (n, n)"""
    units = _units(vectors)
    return (units @ units.T).clip(-1.0, 1.0)


def cosine_distances(vectors: Floats) -> Floats:
    """Return 1 - cosine between all vectors, exactly 0 for equal ones, NaN with a zero vector. (n, dim) -> (n, n)

    Computed as half the squared distance of unit vectors, which is accurate for nearly parallel vectors.
    """
    return np.square(distances(_units(vectors))) / 2


@formula(
    "groups/within-between",
    "groups.within_distance",
    "groups.between_distance",
    "groups.within_cosine",
    "groups.between_cosine",
    definition="Mean distance (cosine) over all pairs of sentences within a group, and over all pairs between "
    "groups.",
    cost="exact; n^2 dim",
    citation="after Anderson 2001; the question of Luisto 2024, section 4.4.1",
)
def within_between(table: Floats, group: Codes) -> WithinBetween:
    """Return the means within and between groups of a symmetric table of pairs. table: (n, n); group: (n,) codes

    >>> within_between(np.array([[0.0, 1, 4], [1, 0, 6], [4, 6, 0]]), np.array([0, 0, 1]))
    WithinBetween(within=1.0, between=5.0)
    """
    left, right = np.triu_indices(len(group), 1)
    values, same = table[left, right], group[left] == group[right]
    return WithinBetween(_mean(values[same]), _mean(values[~same]))


@formula(
    "groups/separation",
    "groups.separation",
    "groups.p",
    "groups.p_least",
    definition="Mean distance between groups minus mean distance within them, over the mean of all distances; p: "
    "(1 + permutations of the labels with at least this separation)/(1 + permutations).",
    cost="exact; n^2 per permutation",
    citation="Mantel 1967; Phipson and Smyth 2010 (why 1 is added)",
)
def separation(table: Floats, group: Codes, *, permutations: int = 999, seed: int = 0) -> PermutationTest:
    """Test the separation by permuting labels. table: (n, n) distances; group: (n,) codes from 0

    Neither the mean over all pairs nor the numbers of pairs depend on the labels, so the sum within groups
    decides. NaN if there is no pair within or between groups, or if all vectors are equal.
    """
    n, least = len(group), max(1 / (permutations + 1), 1 / count_labellings(group))
    within, between = within_between(table, group)
    everything = float(table.sum()) / (n * (n - 1)) if n > 1 else float("nan")
    if not (np.isfinite(within) and np.isfinite(between) and everything > 0):
        return PermutationTest(float("nan"), float("nan"), least)
    observed = _sum_within(table, group[None])[0]
    rng = np.random.default_rng(seed)
    block = max(1, MAX_NUMBERS // n)
    at_least = 0
    for start in range(0, permutations, block):
        labels = rng.permuted(np.tile(group, (min(block, permutations - start), 1)), axis=1)
        # A permutation that only renames groups has the same sum up to rounding and counts.
        at_least += int((_sum_within(table, labels) <= observed + 1e-9 * abs(observed)).sum())
    return PermutationTest((between - within) / everything, (1 + at_least) / (permutations + 1), least)


@formula(
    "silhouette/mean",
    "groups.silhouette",
    "groups.silhouette_cosine",
    definition="Mean over sentences of (b - a)/max(a, b), with a the mean distance to its own group and b to the "
    "nearest other group; 0 for a group of one, undefined if all groups are of one. With Euclidean distances, and "
    "with 1 - cosine.",
    cost="exact; n^2 dim",
    citation="Rousseeuw 1987",
)
def silhouettes(table: Floats, group: Codes) -> Floats:
    """Return the silhouette of every vector; NaN for fewer than two groups, or if no group has two members.

    table: (n, n); group: (n,) codes

    >>> silhouettes(np.array([[0.0, 1, 4], [1, 0, 4], [4, 4, 0]]), np.array([0, 0, 1])).tolist()
    [0.75, 0.75, 0.0]
    """
    codes = np.unique(group)
    if len(codes) < 2 or len(codes) == len(group):
        return np.full(len(group), np.nan)
    member = (group[:, None] == codes).astype(np.float64)  # (n, groups)
    sizes, sums = member.sum(0), table @ member
    own = member.astype(bool)
    near = sums[own] / np.maximum(sizes[own.argmax(1)] - 1, 1)
    far = np.where(own, np.inf, sums / sizes).min(1)
    larger = np.maximum(near, far)
    score = np.divide(far - near, larger, out=np.full(len(group), np.nan), where=larger > 0)
    return np.where(sizes[own.argmax(1)] == 1, 0.0, score)


def count_labellings(group: Codes) -> float:
    """Return the number of ways to divide the vectors into groups of these sizes, ignoring the names of groups.

    >>> count_labellings(np.array([0, 0, 1, 1])), count_labellings(np.array([0, 0, 1]))
    (3.0, 3.0)
    """
    sizes = np.unique(group, return_counts=True)[1]
    alike = np.unique(sizes, return_counts=True)[1]
    logs = lgamma(len(group) + 1) - sum(lgamma(size + 1) for size in [*sizes, *alike])
    return float(round(exp(logs))) if logs < 30 else float("inf")


def _sum_within(table: Floats, labels: Codes) -> Floats:
    """Return the sum over ordered pairs of one group, for many labellings. labels: (labellings, n)"""
    sums = np.zeros(len(labels))
    for code in np.unique(labels):
        member = (labels == code).astype(np.float64)
        sums += ((member @ table) * member).sum(1)
    return sums


def _units(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = np.divide(vectors, lengths, out=np.full_like(vectors, np.nan), where=lengths > 0)
    return found


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
