"""Sums and a sample over the matched positions of several spaces, each a layer of a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from theodolite.measures.duplicates import distinct
from theodolite.measures.laboratories.bridge import (
    FEWEST,
    LinearMap,
    biased_cka,
    debiased_cka,
    fit_linear,
    fit_procrustes,
    held_out_r2,
    mapped_recall,
    mutual_knn,
    neighbour_churn,
)
from theodolite.statistics.pairs import PairSums

NAN = float("nan")


class Space(NamedTuple):
    """One layer of the first (0) or the second (1) model."""

    side: int
    layer: int


Pair = tuple[Space, Space]


class SpaceSums:
    """The sums of pairs of spaces, in one pass. Pairs in `split` are summed apart for held-out documents."""

    def __init__(self, pairs: Collection[Pair], split: Collection[Pair]) -> None:
        self._pairs, self._split = tuple(pairs), frozenset(split)
        self._centres: dict[Space, Tensor] = {}
        self._sums: dict[Pair, tuple[PairSums, PairSums | None]] = {}

    def update(self, states: Mapping[Space, Tensor], held: Tensor) -> None:
        """Add rows. states: (rows, dim) by space; held: (rows,) whether the document is held out."""
        if not self._centres:
            self._centres = {space: part.double().mean(0) for space, part in states.items()}
            for x, y in self._pairs:
                self._sums[x, y] = (self._empty(x, y), self._empty(x, y) if (x, y) in self._split else None)
        wide = {space: part.double() for space, part in states.items()}
        for x, y in self._pairs:
            fitted, other = self._sums[x, y]
            if other is None:
                fitted.update(wide[x], wide[y])
            else:
                fitted.update(wide[x][~held], wide[y][~held])
                other.update(wide[x][held], wide[y][held])

    def _empty(self, x: Space, y: Space) -> PairSums:
        return PairSums(self._centres[x], self._centres[y])

    def whole(self, x: Space, y: Space) -> PairSums:
        """Return the sums over all documents."""
        merged = self._empty(x, y)
        for part in self._sums[x, y]:
            if part is not None:
                merged.merge(part)
        return merged

    def parts(self, x: Space, y: Space) -> tuple[PairSums, PairSums]:
        """Return the sums over the documents that maps are fitted to, and over those held out."""
        fitted, held = self._sums[x, y]
        assert held is not None, "not a pair of `split`"
        return fitted, held


class SpaceSample:
    """The rows with the smallest keys, in some spaces."""

    def __init__(self, size: int, spaces: Collection[Space]) -> None:
        self._size = size
        self._keys = torch.empty(0, dtype=torch.int64)
        self.rows: dict[Space, Tensor] = dict.fromkeys(spaces, torch.empty(0))

    def update(self, keys: Tensor, states: Mapping[Space, Tensor]) -> None:
        """Offer rows. keys: (rows,) int64; states: (rows, dim) by space."""
        joined = torch.cat([self._keys, keys])
        chosen = joined.argsort()[: self._size]
        self._keys = joined[chosen]
        for space, rows in self.rows.items():
            both = torch.cat([rows, states[space]]) if len(rows) else states[space]
            self.rows[space] = both[chosen]


def cka_row(sums: SpaceSums, x: Space, y: Space) -> dict[str, Any]:
    """Return the numbers of one cell of the CKA table."""
    whole = sums.whole(x, y), sums.whole(x, x), sums.whole(y, y)
    debiased = debiased_cka(*whole)
    reason = None
    if debiased != debiased:
        reason = f"fewer than {FEWEST} positions" if whole[0].n < FEWEST else "a layer varies too little"
    return {"n": whole[0].n, "cka": debiased, "cka_biased": biased_cka(*whole), "reason": reason}


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


def count_bytes(pairs: Sequence[Pair], split: Collection[Pair], dims: Mapping[Space, int]) -> int:
    """Return the size of the sums of these pairs."""
    return sum(8 * dims[x] * dims[y] * (2 if (x, y) in split else 1) for x, y in pairs)
