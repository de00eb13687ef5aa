"""The jackknife over groups of documents: standard errors of Q, M, V, V_W, V_B and their ratios.

Sums over positions vary because other documents could have been read, so documents are resampled and not units:
"the" is in every corpus. A bootstrap over units draws it twice or not at all, with errors 3 to 17 times too wide.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures import columns
from theodolite.measures.formula import formula
from theodolite.measures.uncertainty import jackknife
from theodolite.measures.unit_sums import Sums as UnitSums
from theodolite.measures.unit_sums import like, select_rows, squared_distances, to_numpy, weigh_means

Array = NDArray[np.float64]
Counts = NDArray[np.integer[Any]]
MAX_CACHED = 2**26
"""Maximum number of cached draw counts, one byte each. Most layers of a survey use the same counts."""
PARTS = tuple(column.name for column in columns.PARTS)
SHARES = {column.name: column.parts for column in columns.RATIOS if column.parts}
"""Ratios whose errors are computed, with numerator and denominator."""
NUMBERS = (*PARTS, *SHARES)
ERRORS = tuple(f"{name}_se" for name in NUMBERS)
TINY = float(np.finfo(np.float64).tiny)
EXCESS = 0.5
"""If the squares of some group differ by more than this share, a few long vectors decide, not the documents."""
SMALL_SHARE = 0.1
"""A set with less of the spread than this does not have those long vectors."""
MIN_GROUPS = 10
"""With fewer groups, the standard error itself is known to no better than a factor of 1.5."""


def describe_errors(prefix: str = "") -> str:
    """Return a description of the columns with these errors of a set of units, for the registry of formulas.

    >>> describe_errors("text_")[:62]
    'jackknife over 20 document groups, with the units of the set h'
    """
    listed = ", ".join(f"{prefix}{name}" for name in ERRORS)
    fixed = ", with the units of the set held fixed" if prefix else ""
    return f"jackknife over 20 document groups{fixed} ({listed})"


class GroupSums(NamedTuple):
    """Sums over all positions of each group of documents, about the centre."""

    n: NDArray[np.int64]  # (groups,)
    sum: Array  # (groups, dim)
    squares: Array  # (groups,)


class UnitGroupSums(NamedTuple):
    """Occurrences by unit and group, and the sums of some frequent units by group, about the centre."""

    counts: Counts  # (units, groups)
    frequent: NDArray[np.int64]  # (frequent,) rows of the units
    sum: Array | Tensor  # (frequent, groups, dim)
    squares: Array  # (frequent, groups)


class RestByGroup(NamedTuple):
    """Units that have no vector of their own, as one: their sums, and what they lose without each group."""

    n: int
    sum: Array  # (dim,) about the centre
    squares: float
    within: float  # the estimated sum of n V(X_t)
    counts: Counts  # (groups,)
    lost: Array  # (groups,) by how much `within` is less without each group

    @classmethod
    def of(
        cls, rest: tuple[int, Array, float, float], n: NDArray[np.int64], within: Array, counts: Counts
    ) -> Self:
        """Combine the sums with n, the estimated n V(X_t) and the counts of each unit. counts: (units, groups)"""
        lost = _lose_within(n, within / n, counts.astype(np.float64)).sum(axis=0)
        return cls(*rest, counts.sum(axis=0), lost)


@formula(
    "jackknife/groups",
    "jackknife.value",
    definition="The number over all documents except those of one of 20 groups, which a hash assigns. "
    "The standard error of a number, or of a difference of two, is sqrt((g - 1)/g sum (theta_i - mean)^2).",
    cost="from counts by unit and group, and the sums by group of the 96 units most frequent in the pilot",
    citation="Quenouille 1956; Tukey 1958",
)
def delete_groups(
    n: NDArray[np.int64],
    total: UnitSums,
    squares: Array,
    unit_v: Array,
    centre: Array,
    sets: NDArray[np.bool_],
    groups: GroupSums,
    by_unit: UnitGroupSums,
    rest: RestByGroup | None = None,
    with_rest: NDArray[np.bool_] | None = None,
) -> Array:
    """Return NUMBERS of each set of units without each group of documents; NaN if undefined.

    Exact for Q, M and V of all units, and for V_W of frequent units. Without n_tg of its n_t occurrences,
    n_t V(X_t) of any other unit is less by n_tg n_t V(X_t)/(n_t - 1), and by its share of `_extrapolate`. How
    vectors deviate from the means of their units is known by group only, for these. The units of a set are not
    chosen again. `rest` are units without a vector, in the sets `with_rest`: one more unit for the sums, of which
    the spread within units and its loss are given.
    O(sets x groups x units x dim). n, squares, unit_v: (units,), total: (units, dim) about the centre,
    sets: (sets, units) -> (sets, groups, numbers)
    """
    counts, vectors = by_unit.counts.astype(np.float64), len(n)
    if rest is not None:
        n, squares = np.append(n, rest.n), np.append(squares, rest.squares)
        unit_v, counts = np.append(unit_v, rest.within / rest.n), np.concatenate([counts, rest.counts[None]])
        sets = np.concatenate([sets, np.asarray(with_rest)[:, None]], axis=1)
    kept = np.concatenate([np.ones((1, len(n)), dtype=bool), sets])
    weights = np.concatenate([counts.T, n[None]])  # of each group, and of all
    sums = weigh_means(kept[:, :vectors], weights[:, :vectors], n[:vectors], total)
    if rest is not None:
        sums = sums + (kept[:, -1:] * weights[:, -1] / rest.n)[:, :, None] * rest.sum
    lost_sums, lost_squares = sums[:, :-1], kept @ (counts * (squares / n)[:, None])
    # What the groups hold beyond the means of the units: of all units, and of the frequent ones.
    beyond, beyond_squares = groups.sum - lost_sums[0], groups.squares - lost_squares[0]
    of = by_unit.frequent
    # By unit, group and coordinate: the largest arrays, which stay on the device of the sums.
    frequent = like(by_unit.sum, select_rows(total, of))
    usual_share = like(by_unit.sum, counts[of] / n[of, None])
    frequent_beyond = by_unit.sum - usual_share[:, :, None] * frequent[:, None]
    frequent_squares = by_unit.squares - counts[of] * (squares[of] / n[of])[:, None]
    mean = sums[0, -1] / n.sum()
    within = _lose_within(n, unit_v, counts)
    if rest is not None:
        within[-1] = rest.lost
    exact = _lose_frequent(n[of], frequent, squares[of], unit_v[of], counts[of], by_unit)
    others = np.ones(len(n), dtype=bool)
    others[of] = False
    spread = n * unit_v
    away = n[:vectors] * (unit_v[:vectors] + squared_distances(n[:vectors], total, mean)[0])  # of |x - mean|^2
    if rest is not None:
        away = np.append(away, rest.squares - 2 * rest.sum @ mean + rest.n * (mean @ mean))
    longer = (frequent_squares - 2 * to_numpy(frequent_beyond @ like(by_unit.sum, mean))).sum(axis=0)
    others_longer = beyond_squares - 2 * beyond @ mean - longer
    occurrences = counts[others].sum(axis=0) / max(n[others].sum(), 1)  # the share of each group
    more = _extrapolate((exact - within[of]).sum(axis=0), longer, others_longer, spread, away, others)
    if (np.abs(more) < EXCESS * spread[others].sum() * occurrences).all():
        within[others] += np.outer(spread[others] / max(spread[others].sum(), TINY), more)
    within[of] = exact
    # Of what is not known by unit, a set has the share of its units in the spread within units.
    unknown_squares = beyond_squares - frequent_squares.sum(axis=0)
    unknown = beyond - to_numpy(frequent_beyond.sum(axis=0))
    usual = bool((np.abs(others_longer) < EXCESS * away[others].sum() * occurrences).all())
    member = sets.astype(np.float64)  # products with it are sums over the units of each set
    inner_n, inner_counts, inner_within = (member @ part for part in (n, counts, within))
    inner_squares, inner_spread, inner_others = (member @ part for part in (squares, spread, spread * others))
    own = like(by_unit.sum, member[:, of]) @ frequent_beyond.reshape(len(of), beyond.size)
    own_beyond = to_numpy(own).reshape(len(sets), *beyond.shape)
    estimates = []
    for number, inside in enumerate(sets):
        share = inner_others[number] / max(spread[others].sum(), TINY)
        share = 1.0 if inside[others].all() else share if usual or share > SMALL_SHARE else 0.0
        own_sum = lost_sums[number + 1] + own_beyond[number] + share * unknown
        own_squares = lost_squares[number + 1] + frequent_squares[inside[of]].sum(axis=0) + share * unknown_squares
        left = (
            inner_n[number] - inner_counts[number],
            sums[number + 1, -1] - own_sum,
            inner_squares[number] - own_squares,
            inner_spread[number] - inner_within[number],
        )
        estimates.append(_numbers(*left, centre))
    return np.stack(estimates)


def _lose_within(n: NDArray[np.int64], unit_v: Array, counts: Array) -> Array:
    """Return by how much n V(X_t) is less without each group, from counts alone. -> (units, groups)"""
    whole = n * unit_v
    each = whole / np.maximum(n - 1, 1)
    return np.where(counts == n[:, None], whole[:, None], counts * each[:, None])


def _lose_frequent(
    n: NDArray[np.int64], total: UnitSums, squares: Array, unit_v: Array, counts: Array, by_unit: UnitGroupSums
) -> Array:
    """Return the same from the sums of the frequent units, exactly. -> (frequent, groups)"""
    left = n[:, None] - counts
    less: Any = total[:, None] - by_unit.sum
    rest = to_numpy((less * less).sum(axis=2)) / np.maximum(left, 1)
    without = np.where(left > 0, squares[:, None] - by_unit.squares - rest, 0.0)
    return np.asarray((n * unit_v)[:, None] - np.maximum(without, 0.0))


def _extrapolate(
    excess: Array, longer: Array, others_longer: Array, spread: Array, away: Array, others: NDArray[np.bool_]
) -> Array:
    """Return what all other units lose in addition, if documents change their spread as that of frequent units.

    A group whose vectors are longer than their units' means suggest has also more spread within units. `excess` of
    the frequent units is regressed on `longer`; the slope applies to the other units in proportion to the share of
    spread within units, the residual in proportion to the spread. The first three and the result: (groups,),
    spread and away: (units,)
    """
    own, their = spread[~others].sum(), spread[others].sum()
    if own <= 0 or their <= 0:
        return np.zeros_like(excess)
    x, y = longer - longer.mean(), excess - excess.mean()
    slope = float(x @ y / (x @ x)) if x.any() else 0.0
    ratio = (their / away[others].sum()) / (own / away[~others].sum())
    return np.asarray(slope * ratio * others_longer + (excess - slope * longer) * their / own)


def _numbers(n: Array, total: Array, squares: Array, within: Array, centre: Array) -> Array:
    """Return NUMBERS of each group from sums about the centre. (groups,), (groups, dim) -> (groups, numbers)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        held = np.where(n > 0, n, np.nan)
        mean = total / held[:, None]
        v = np.maximum(squares / held - np.square(mean).sum(axis=1), 0.0)
        v_within = np.clip(within / held, 0.0, v)
        m = np.square(mean + centre).sum(axis=1)
        part = dict(zip(PARTS, (m + v, m, v, v_within, v - v_within), strict=True))
        ratios = [part[above] / part[below] for above, below in SHARES.values()]
    return np.stack([*part.values(), *ratios], axis=1)


def group_error(without: Array) -> Array:
    """Return jackknife errors from the estimates without each group; NaN for fewer than MIN_GROUPS groups.

    The error of a difference is that of the differences: it is smaller than the two errors suggest if both numbers
    vary alike with the documents. (groups, numbers) -> (numbers,)
    """
    if len(without) < MIN_GROUPS:
        return np.full(without.shape[1:], np.nan)
    return jackknife(len(without), lambda group: without[group])


def compact_counts(counts: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Return the counts as bytes if they fit, as they usually do."""
    return counts.astype(np.uint8) if counts.max(initial=0) < 256 else counts


def finite_spread(values: Array) -> float:
    """Return the standard deviation (n - 1) of the finite values; NaN for fewer than two."""
    values = values[np.isfinite(values)]
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
