"""Sums and a sample over the matched positions of several spaces, each a layer of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from theodolite.measures.duplicates import distinct
from theodolite.measures.laboratories.bridge import (
    FEWEST,
    LinearMap,
    biased_hsic,
    fit_linear,
    fit_procrustes,
    held_out_r2,
    mapped_recall,
    mutual_knn,
    neighbour_churn,
    normalize_hsic,
    unbiased_hsic,
)
from theodolite.measures.resampling import group_error
from theodolite.statistics.pairs import SUMS, PairSums
from theodolite.studies.bridge.positions import GROUPS, HELD_SHARE

NAN = float("nan")


class Space(NamedTuple):
    """One layer of the first (0) or the second (1) model."""

    side: int
    layer: int


Pair = tuple[Space, Space]


class SpaceSums:
    """The sums of pairs of spaces, in one pass.

    Those of a pair are kept in parts: one for each group of documents, from which errors are computed; or two, of
    which the second is of held-out documents; or one.
    """

    def __init__(self, parts: Mapping[Pair, int]) -> None:
        self.parts_of = dict(parts)
        self.centres: dict[Space, Tensor] = {}
        self._sums: dict[Pair, list[PairSums]] = {}

    def update(self, states: Mapping[Space, Tensor], group: Tensor) -> None:
        """Add rows. states: (rows, dim) by space; group: (rows,) the group of the document, 0 ... GROUPS - 1."""
        if not self.centres:
            self.start({space: part.double().mean(0) for space, part in states.items()})
        order = group.argsort(stable=True)
        ordered = {space: part[order].double() for space, part in states.items()}
        edges = [0, *torch.bincount(group, minlength=GROUPS).cumsum(0).tolist()]
        for (x, y), parts in self._sums.items():
            for number, (start, stop) in enumerate(pairwise(edges)):
                if start < stop:
                    rows = slice(start, stop)
                    parts[_part_of(number, len(parts))].update(ordered[x][rows], ordered[y][rows])

    def start(self, centres: Mapping[Space, Tensor]) -> None:
        """Begin with empty sums about these centres, by space."""
        self.centres = dict(centres)
        self._sums = {(x, y): [self._empty(x, y) for _ in range(count)] for (x, y), count in self.parts_of.items()}

    def _empty(self, x: Space, y: Space) -> PairSums:
        return PairSums(self.centres[x], self.centres[y])

    def merge(self, other: SpaceSums) -> None:
        """Add the sums of other documents; they are moved to these centres."""
        for pair, parts in self._sums.items():
            for mine, theirs in zip(parts, other._sums[pair], strict=True):
                theirs.recentre(mine.centre_x, mine.centre_y)
                mine.merge(theirs)

    def whole(self, x: Space, y: Space) -> PairSums:
        """Return the sums over all documents."""
        return self._add(x, y, self._sums[x, y])

    def without_each(self, x: Space, y: Space) -> Iterator[PairSums]:
        """Yield the sums over all documents but those of each group that has any; none if not kept by group.

        They are added, never subtracted: those before the group, and those after it.
        """
        parts = [part for part in self._sums[x, y] if part.n] if self.parts_of[x, y] == GROUPS else []
        after = list(accumulate(reversed(parts), lambda one, other: self._add(x, y, [one, other])))[::-1]
        before: list[PairSums] = []
        for number, part in enumerate(parts):
            yield self._add(x, y, [*before, *after[number + 1 : number + 2]])
            before = [self._add(x, y, [*before, part])]

    def _add(self, x: Space, y: Space, parts: Sequence[PairSums]) -> PairSums:
        merged = self._empty(x, y)
        for part in parts:
            merged.merge(part)
        return merged

    def parts(self, x: Space, y: Space) -> tuple[PairSums, PairSums]:
        """Return the sums over the documents that maps are fitted to, and over those held out."""
        parts = self._sums[x, y]
        assert len(parts) > 1, "not kept apart"
        held = [_is_held(number, len(parts)) for number in range(len(parts))]
        fitted, other = (
            self._add(x, y, [part for part, is_held in zip(parts, held, strict=True) if is_held == wanted])
            for wanted in (False, True)
        )
        return fitted, other

    def state(self) -> dict[str, Tensor]:
        """Return centres and sums by name."""
        named = {f"centre.{_name(space)}": centre for space, centre in self.centres.items()}
        for (x, y), parts in self._sums.items():
            for number, part in enumerate(parts):
                prefix = f"{_name(x)}-{_name(y)}.{number}."
                named |= {prefix + name: tensor for name, tensor in part.state().items()}
        return named

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace all sums by those of a state of the same pairs."""
        spaces = {space for pair in self.parts_of for space in pair}
        self.start({space: state[f"centre.{_name(space)}"] for space in sorted(spaces)})
        for (x, y), parts in self._sums.items():
            for number, part in enumerate(parts):
                prefix = f"{_name(x)}-{_name(y)}.{number}."
                part.load({name: state[prefix + name] for name in ("n", *SUMS)})


def _name(space: Space) -> str:
    return f"{'ab'[space.side]}{space.layer}"


def _part_of(group: int, parts: int) -> int:
    """Return the part that a group of documents belongs to.

    >>> [_part_of(group, 2) for group in (0, 1, 5, 9)], _part_of(7, GROUPS), _part_of(7, 1)
    ([1, 0, 1, 0], 7, 0)
    """
    return group if parts == GROUPS else int(group % HELD_SHARE == 0) if parts == 2 else 0


def _is_held(part: int, parts: int) -> bool:
    return part % HELD_SHARE == 0 if parts == GROUPS else part == 1


class SpaceSample:
    """The rows with the smallest keys, in some spaces."""

    def __init__(self, size: int, spaces: Collection[Space]) -> None:
        self._size = size
        self._keys = torch.empty(0, dtype=torch.int64)
        self.rows: dict[Space, Tensor] = dict.fromkeys(spaces, torch.empty(0))

    def update(self, keys: Tensor, states: Mapping[Space, Tensor]) -> None:
        """Offer rows. keys: (rows,) int64; states: (rows, dim) by space."""
        joined = torch.cat([self._keys, keys])
        chosen = joined.argsort(stable=True)[: self._size]
        self._keys = joined[chosen]
        for space, rows in self.rows.items():
            both = torch.cat([rows, states[space]]) if len(rows) else states[space]
            self.rows[space] = both[chosen]

    def merge(self, other: SpaceSample) -> None:
        """Offer the rows of another sample."""
        if len(other._keys):
            self.update(other._keys, other.rows)

    def state(self) -> dict[str, Tensor]:
        """Return the keys and the rows by name."""
        return {"sample.keys": self._keys, **{f"sample.{_name(s)}": rows for s, rows in self.rows.items()}}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace the rows by those of a state of the same spaces."""
        self._keys = state["sample.keys"]
        self.rows = {space: state[f"sample.{_name(space)}"] for space in self.rows}


def cka_rows(sums: SpaceSums, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return the numbers of some cells of the CKA table."""

    @cache
    def whole(x: Space, y: Space) -> tuple[float, float, int]:
        found = sums.whole(x, y)
        return unbiased_hsic(found), biased_hsic(found), found.n

    @cache
    def without(x: Space, y: Space) -> list[float]:
        return [unbiased_hsic(part) for part in sums.without_each(x, y)]

    rows = []
    for x, y in pairs:
        (debiased, biased, (n, *_)) = zip(*(whole(*pair) for pair in ((x, y), (x, x), (y, y))), strict=True)
        each = zip(without(x, y), without(x, x), without(y, y), strict=True)
        value, error = normalize_hsic(*debiased), float(group_error(np.array([normalize_hsic(*h) for h in each])))
        reason = se_reason = None
        if not np.isfinite(value):
            reason = f"fewer than {FEWEST} positions" if n < FEWEST else "a layer varies too little"
        if not np.isfinite(error):
            few = "the documents are in fewer than ten groups"
            by_group = sums.parts_of[x, y] == GROUPS
            se_reason = reason or (few if by_group else "sums by group of documents do not fit in memory")
        row = {"n": n, "cka": value, "cka_se": error, "cka_biased": normalize_hsic(*biased)}
        rows.append(row | {"reason": reason, "se_reason": se_reason})
    return rows


class Maps(NamedTuple):
    """The maps from one space to another; None where there are too few positions."""

    linear: LinearMap | None
    procrustes: LinearMap | None
    row: dict[str, Any]  # R^2, scale, counts


def fit_maps(sums: SpaceSums, x: Space, y: Space) -> Maps:
    """Fit both maps, and measure them on held-out documents."""
    (xy, xy_held), (xx, xx_held) = sums.parts(x, y), sums.parts(x, x)
    row: dict[str, Any] = {"n_fitted": xy.n, "n_held_out": xy_held.n, "linear_r2": NAN}
    row |= {"procrustes_r2": NAN, "procrustes_scale": NAN, "map_reason": None}
    dim = len(xy.sum_x)
    linear = procrustes = None
    if xy_held.n < 2 or xy.n < 2:
        row["map_reason"] = "too few documents to hold some out"
        return Maps(linear, procrustes, row)
    procrustes, row["procrustes_scale"] = fit_procrustes(xy)
    row["procrustes_r2"] = held_out_r2(procrustes, xy_held, xx_held)
    if xy.n <= dim:
        row["map_reason"] = f"{xy.n} positions to fit are not more than {dim} dimensions"
    else:
        linear = fit_linear(xy, xx)
        row["linear_r2"] = held_out_r2(linear, xy_held, xx_held)
    return Maps(linear, procrustes, row)


def neighbour_row(x: Tensor, y: Tensor, maps: Maps, k: int) -> dict[str, Any]:
    """Return the numbers about the neighbours of sampled rows, without duplicates. (rows, dim) each"""
    row: dict[str, Any] = {"n_sample": 0, "duplicates": 0, "k": k}
    names = "mutual_knn mutual_knn_chance churn recall_linear recall_procrustes recall_none".split()
    row |= dict.fromkeys(names, NAN) | {"neighbour_reason": None}
    if len(x):
        kept = torch.tensor(sorted(set(distinct(x).tolist()) & set(distinct(y).tolist())), dtype=torch.int64)
        row["duplicates"] = len(x) - len(kept)
        x, y = x[kept], y[kept]
    n = row["n_sample"] = len(x)
    if n < k + 2:
        row["neighbour_reason"] = f"{n} different positions in the sample are too few for {k} neighbours"
        return row
    row |= {"mutual_knn": mutual_knn(x, y, k), "mutual_knn_chance": k / (n - 1), "churn": neighbour_churn(x, y, k)}
    for name, found in (("linear", maps.linear), ("procrustes", maps.procrustes)):
        if found is not None:
            row[f"recall_{name}"] = mapped_recall(found(x), y, k)
    if x.shape[1] == y.shape[1]:
        row["recall_none"] = mapped_recall(x, y, k)
    return row


def link_depths(count: int, other: int | None) -> list[tuple[int, int]]:
    """Return the places of the layers to map: of equal relative depth, or consecutive if there is one model.

    >>> link_depths(3, 5), link_depths(3, None)
    ([(0, 0), (1, 2), (2, 4)], [(0, 1), (1, 2)])
    """
    if other is None:
        return [(place, place + 1) for place in range(count - 1)]
    if count == 1:
        return [(0, other - 1)]
    return [(place, round(place * (other - 1) / (count - 1))) for place in range(count)]


def count_bytes(parts: Mapping[Pair, int], dims: Mapping[Space, int]) -> int:
    """Return the size of the sums of these pairs, each in so many parts."""
    return sum(8 * dims[x] * dims[y] * count for (x, y), count in parts.items())
