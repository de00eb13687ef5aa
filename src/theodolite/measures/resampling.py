"""The jackknife over groups of documents: standard errors of Q, M, V, V_W, V_B and their ratios.

Sums over positions vary because other documents could have been read, so documents are resampled and not units:
"the" is in every corpus. A bootstrap over units draws it twice or not at all, with errors 3 to 17 times too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.measures import columns
from theodolite.measures.formula import formula
from theodolite.measures.uncertainty import jackknife
from theodolite.measures.unit_sums import Sums as UnitSums
from theodolite.measures.unit_sums import distances_from

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
        parts = (torch.from_numpy(part.astype(np.float64)) for part in (n, within / n, counts))
        return cls(*rest, counts.sum(axis=0), _lose_within(*parts).sum(dim=0).numpy())


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
    O(sets x groups x units x dim), on the device of `total`; only sums over units are copied to the CPU.
    n, squares, unit_v: (units,), total: (units, dim) about the centre, sets: (sets, units)
    -> (sets, groups, numbers)
    """
    sums = _SumsOnDevice(n, total, squares, unit_v, sets, groups, by_unit, rest, with_rest)
    known = sums.reduce()
    occurrences = known.their_counts / np.maximum(known.their_n, 1)  # the share of each group
    more = _extrapolate(known)
    if (np.abs(more) < EXCESS * known.their_spread * occurrences).all():
        known.set_within += np.outer(known.set_others / np.maximum(known.their_spread, TINY), more)
    # Of what is not known by unit, a set has the share of its units in the spread within units.
    usual = bool((np.abs(known.others_longer) < EXCESS * known.their_away * occurrences).all())
    share = known.set_others / np.maximum(known.their_spread, TINY)
    share = np.where(known.without_others == 0, 1.0, np.where(usual | (share > SMALL_SHARE), share, 0.0))
    left_n = known.set_n[:, None] - known.set_counts
    own_squares = known.lost_squares + known.set_frequent_squares + np.outer(share, known.unknown_squares)
    left_squares, left_within = (
        known.set_squares[:, None] - own_squares,
        known.set_spread[:, None] - known.set_within,
    )
    about, m = sums.reduce_means(left_n, share, centre)
    return _numbers(left_n, about, m, left_squares, left_within)


def delete_groups_of_all(groups: GroupSums, centre: Array) -> Array:
    """Return NUMBERS without each group for which units do not matter; those that need them are wrong.

    -> (groups, numbers)
    """
    n, total, squares = (part.sum(axis=0) - part for part in groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / np.where(n > 0, n, np.nan)[:, None]
    about, m = np.square(mean).sum(axis=1), np.square(mean + centre).sum(axis=1)
    return _numbers(n.astype(np.float64), about, m, squares, np.zeros_like(squares))


@dataclass
class _Reduced:
    """Sums over units, of which `own` ones are frequent: (groups,) if nothing else is stated."""

    excess: Array  # what frequent units lose beyond what their counts suggest
    longer: Array  # by how much squares of frequent units about the mean are more than their units suggest
    others_longer: Array  # the same for all other units
    unknown_squares: Array
    their_counts: Array  # of units that are not frequent
    their_n: Array  # () like the following
    their_spread: Array
    their_away: Array
    own_spread: Array
    own_away: Array
    set_n: Array  # (sets,) like the following
    set_squares: Array
    set_spread: Array
    set_others: Array  # the spread of units that are not frequent
    without_others: Array  # how many of these units are not in the set
    set_counts: Array  # (sets, groups) like the following
    set_within: Array
    set_frequent_squares: Array
    lost_squares: Array


class _SumsOnDevice:
    """The arrays by unit of `delete_groups`, on the device of the sums."""

    def __init__(
        self,
        n: NDArray[np.int64],
        total: UnitSums,
        squares: Array,
        unit_v: Array,
        sets: NDArray[np.bool_],
        groups: GroupSums,
        by_unit: UnitGroupSums,
        rest: RestByGroup | None,
        with_rest: NDArray[np.bool_] | None,
    ) -> None:
        self.total = total if isinstance(total, Tensor) else torch.from_numpy(total)
        self.n, self.squares, self.unit_v = self._on(np.stack([n, squares, unit_v]))
        self.counts, self.sets = self._on(by_unit.counts), self._on(sets)
        self.groups_sum, self.groups_squares = self._on(groups.sum), self._on(groups.squares)
        self.of = to_device(torch.from_numpy(by_unit.frequent), self.total.device)
        self.by_sum, self.by_squares = self._on(by_unit.sum), self._on(by_unit.squares)
        self.rest = rest
        if rest is not None:
            last = self._on(np.array([rest.n, rest.squares, rest.within / rest.n]))[:, None]
            self.n, self.squares, self.unit_v = torch.cat(
                [torch.stack([self.n, self.squares, self.unit_v]), last], dim=1
            )
            self.counts = torch.cat([self.counts, self._on(rest.counts)[None]])
            self.sets = torch.cat([self.sets, self._on(np.asarray(with_rest))[:, None]], dim=1)

    def _on(self, values: NDArray[Any] | Tensor) -> Tensor:
        given = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        return to_device(given, self.total.device).double()

    def reduce(self) -> _Reduced:
        """Compute all sums over units, and copy them to the CPU together."""
        n, counts, of, rest = self.n, self.counts, self.of, self.rest
        vectors = len(self.total)
        kept = torch.cat([torch.ones_like(n)[None], self.sets])
        weights = torch.cat([counts.T, n[None]]) / n  # of each group, and of all
        rows = (kept[:, None, :vectors] * weights[:, :vectors]).flatten(0, 1)
        self.sums = (rows @ self.total).unflatten(0, (len(kept), len(weights)))
        if rest is not None:
            self.sums += (kept[:, -1:] * weights[:, -1])[:, :, None] * self._on(rest.sum)
        mean = self.sums[0, -1] / n.sum()
        lost_squares = kept @ (counts * (self.squares / n)[:, None])
        # What the groups hold beyond the means of the units: of all units, and of the frequent ones.
        beyond, beyond_squares = self.groups_sum - self.sums[0, :-1], self.groups_squares - lost_squares[0]
        frequent = self.total[of]
        frequent_beyond = self.by_sum - (counts[of] / n[of, None])[:, :, None] * frequent[:, None]
        frequent_squares = self.by_squares - counts[of] * (self.squares[of] / n[of])[:, None]
        self.unknown = beyond - frequent_beyond.sum(dim=0)
        self.own_beyond = (self.sets[:, of] @ frequent_beyond.flatten(1)).unflatten(1, beyond.shape)
        spread = n * self.unit_v
        within = _lose_within(n, self.unit_v, counts)
        away = spread[:vectors] + n[:vectors] * distances_from(n[:vectors], self.total, mean[None])[0]
        if rest is not None:  # |x - mean|^2 summed over all of them
            within[-1] = self._on(rest.lost)
            rest_sum = self._on(rest.sum)
            away = torch.cat([away, (rest.squares - 2 * rest_sum @ mean + rest.n * (mean @ mean))[None]])
        exact = self._lose_frequent(frequent)
        excess = (exact - within[of]).sum(dim=0)
        within[of] = exact
        others = torch.ones_like(n)
        others[of] = 0.0
        longer = (frequent_squares - 2 * (frequent_beyond @ mean)).sum(dim=0)
        parts = (
            excess,
            longer,
            beyond_squares - 2 * (beyond @ mean) - longer,
            beyond_squares - frequent_squares.sum(dim=0),
            others @ counts,
            *(others @ torch.stack([n, spread, away], dim=1)),
            *(part[of].sum() for part in (spread, away)),
            *(self.sets @ torch.stack([n, self.squares, spread, spread * others], dim=1)).T,
            (1 - self.sets) @ others,
            self.sets @ counts,
            self.sets @ within,
            self.sets[:, of] @ frequent_squares,
            lost_squares[1:],
        )
        sizes = [part.numel() for part in parts]
        copied = torch.cat([part.flatten() for part in parts]).cpu().split_with_sizes(sizes)
        return _Reduced(*(flat.view(part.shape).numpy() for flat, part in zip(copied, parts, strict=True)))

    def _lose_frequent(self, total: Tensor) -> Tensor:
        """Return by how much n V(X_t) of frequent units is less without each group, exactly. -> (units, groups)"""
        n, of = self.n[self.of, None], self.of
        left = n - self.counts[of]
        less = (total[:, None] - self.by_sum).square_().sum(dim=2) / left.clamp(min=1)
        without = torch.where(left > 0, self.squares[of, None] - self.by_squares - less, 0.0)
        exact: Tensor = n * self.unit_v[of, None] - without.clamp(min=0)
        return exact

    def reduce_means(self, n: Array, share: Array, centre: Array) -> Array:
        """Return |mean|^2 about the centre and about 0 of what is left of each set. -> (2, sets, groups)"""
        own = self.sums[1:, :-1] + self.own_beyond + self._on(share)[:, None, None] * self.unknown
        mean = (self.sums[1:, -1:] - own) / self._on(np.where(n > 0, n, np.nan))[:, :, None]
        return np.asarray(
            torch.stack([mean.square().sum(dim=2), (mean + self._on(centre)).square_().sum(dim=2)]).cpu().numpy()
        )


def _lose_within(n: Tensor, unit_v: Tensor, counts: Tensor) -> Tensor:
    """Return by how much n V(X_t) is less without each group, from counts alone. -> (units, groups)"""
    whole = n * unit_v
    each = whole / (n - 1).clamp(min=1)
    return torch.where(counts == n[:, None], whole[:, None], counts * each[:, None])


def _extrapolate(known: _Reduced) -> Array:
    """Return what all other units lose in addition, if documents change their spread as that of frequent units.

    A group whose vectors are longer than their units' means suggest has also more spread within units. `excess` of
    the frequent units is regressed on `longer`; the slope applies to the other units in proportion to the share of
    spread within units, the residual in proportion to the spread. -> (groups,)
    """
    own, their = known.own_spread, known.their_spread
    if own <= 0 or their <= 0:
        return np.zeros_like(known.excess)
    x, y = known.longer - known.longer.mean(), known.excess - known.excess.mean()
    slope = float(x @ y / (x @ x)) if x.any() else 0.0
    ratio = (their / known.their_away) / (own / known.own_away)
    return np.asarray(slope * ratio * known.others_longer + (known.excess - slope * known.longer) * their / own)


def _numbers(n: Array, about: Array, m: Array, squares: Array, within: Array) -> Array:
    """Return NUMBERS of what is left. n and sums of squares and within units: (any,) each -> (any, numbers)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        held = np.where(n > 0, n, np.nan)
        v = np.maximum(squares / held - about, 0.0)
        v_within = np.clip(within / held, 0.0, v)
        part = dict(zip(PARTS, (m + v, m, v, v_within, v - v_within), strict=True))
        ratios = [part[above] / part[below] for above, below in SHARES.values()]
    return np.stack([*part.values(), *ratios], axis=-1)


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
