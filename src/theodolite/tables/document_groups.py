"""jackknife.parquet: numbers without each group of documents, whose spread gives standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.measures.columns import FEW_GROUPS, NO_POSITION, NO_UNITS
from theodolite.measures.cosine import mean_cosine
from theodolite.measures.decomposition import UnitMoments
from theodolite.measures.resampling import (
    MIN_GROUPS,
    NUMBERS,
    GroupSums,
    UnitGroupSums,
    delete_groups,
    group_error,
)
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.tables.shape import TOO_WIDE
from theodolite.tables.unit_sets import NEEDED, make_sets

Array = NDArray[np.float64]
NO_COUNTS = "sums of an older version have no counts by unit and group of documents; survey again"
ZERO = "Q or V is 0"
WITHOUT_UNITS = ("q", "m", "v", "m_of_q", "mean_cosine")
"""Columns whose errors need no units."""
BY_UNIT = tuple(name for name in NUMBERS if name not in WITHOUT_UNITS)


@dataclass
class GroupEstimates:
    """Numbers without each non-empty group of documents, by column, and why others have none."""

    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    values: dict[str, Array] = field(default_factory=dict)  # (groups,) each
    reasons: dict[str, str] = field(default_factory=dict)

    def errors(self) -> dict[str, tuple[float, str]]:
        """Return the standard error of each column, and the reason if it is NaN."""
        unknown = FEW_GROUPS if len(self.groups) < MIN_GROUPS else ZERO
        found = {name: (float(group_error(values)), unknown) for name, values in self.values.items()}
        return found | {name: (float("nan"), reason) for name, reason in self.reasons.items()}

    def table(self) -> pd.DataFrame:
        """Return one row per column and group of documents."""
        values = np.concatenate([np.zeros(0), *self.values.values()])
        columns = np.repeat(np.array(list(self.values), dtype=object), len(self.groups))
        groups = np.tile(self.groups, len(self.values))
        return pd.DataFrame({"column": columns, "group": groups, "value": values})

    def _put(self, prefix: str, names: Iterable[str], estimates: Array) -> None:
        found = dict(zip(NUMBERS, estimates.T, strict=True))
        self.values |= {f"{prefix}{name}": found[name] for name in names}


def estimate_without_groups(
    fold: LayerFold,
    cells: Sequence[int],
    sums: UnitSums,
    units: UnitMoments,
    special: NDArray[np.bool_] | None,
) -> GroupEstimates:
    """Compute the numbers without each group of documents; `special` is None if the vectors have no units."""
    set_columns = [f"{prefix}{name}" for prefix in NEEDED for name in NUMBERS]
    if fold.wide:
        return GroupEstimates(reasons=dict.fromkeys([*WITHOUT_UNITS, *BY_UNIT, *set_columns], TOO_WIDE))
    chosen, stored = list(cells), fold.groups
    held = stored.n[chosen].sum(0).numpy() > 0
    n, total, squares, directed, directions = (
        part[chosen].sum(0).numpy()[held]
        for part in (stored.n, stored.sum, stored.squares, stored.directed, stored.directions)
    )
    groups, centre = GroupSums(n, total, squares), sums.centre.numpy()
    found = GroupEstimates(held.nonzero()[0])
    if not len(n):
        found.reasons = dict.fromkeys(WITHOUT_UNITS, FEW_GROUPS)
        found.reasons |= dict.fromkeys([*BY_UNIT, *set_columns], NO_POSITION if special is not None else NO_UNITS)
        return found
    found._put("", [name for name in WITHOUT_UNITS if name in NUMBERS], _delete_as_one_unit(groups, centre))
    rest = [np.arange(len(n)) != group for group in range(len(n))]
    found.values["mean_cosine"] = np.array(
        [mean_cosine(int(directed[kept].sum()), directions[kept].sum(0)) for kept in rest]
    )
    by_unit = None if special is None else _sum_by_unit(fold, cells, sums, held, n)
    if special is None or by_unit is None:
        found.reasons = dict.fromkeys([*BY_UNIT, *set_columns], NO_UNITS if special is None else NO_COUNTS)
        return found
    sets = make_sets(sums.n.numpy(), special)
    small = {prefix: few for prefix, (least, few) in NEEDED.items() if sets[prefix].sum() < least}
    found.reasons = {f"{prefix}{name}": few for prefix, few in small.items() for name in NUMBERS}
    used = {"": np.ones(len(sums.n), dtype=bool)} | {
        name: units for name, units in sets.items() if name not in small
    }
    estimates = delete_groups(
        sums.n.numpy(),
        sums.readable,
        sums.squares.numpy(),
        units.v,
        centre,
        np.stack(list(used.values())),
        groups,
        by_unit,
    )
    for prefix, of_set in zip(used, estimates, strict=True):
        found._put(prefix, NUMBERS if prefix else BY_UNIT, of_set)
    return found


def _delete_as_one_unit(groups: GroupSums, centre: Array) -> Array:
    """Return NUMBERS without each group as if all positions were of one unit: right for those without units."""
    n, total = groups.n.sum(keepdims=True), groups.sum.sum(axis=0, keepdims=True)
    none = np.zeros(0, dtype=np.int64)
    counts = UnitGroupSums(groups.n[None], none, np.zeros((0, *groups.sum.shape)), np.zeros((0, len(groups.n))))
    whole = np.ones((1, 1), dtype=bool)
    squares = groups.squares.sum(keepdims=True)
    return np.asarray(delete_groups(n, total, squares, np.zeros(1), centre, whole, groups, counts)[0])


def _sum_by_unit(
    fold: LayerFold, cells: Sequence[int], sums: UnitSums, held: NDArray[np.bool_], n: NDArray[np.int64]
) -> UnitGroupSums | None:
    """Return counts by unit in non-empty groups, and sums of frequent units; None if counts are missing."""
    counted = fold.unit_groups.population(cells)
    counts = counted.n.numpy()[:, held]
    if not torch.equal(counted.codes, sums.codes) or not np.array_equal(counts.sum(axis=0), n):
        return None
    stored = fold.frequent_units.population(cells)
    rows = torch.searchsorted(sums.codes, stored.codes).clamp_(max=len(sums.codes) - 1)
    # A unit that was not frequent in the pilot of a merged part lacks occurrences: it counts as any other.
    complete = (sums.codes[rows] == stored.codes) & (stored.n.sum(1) == sums.n[rows])
    kept = complete.nonzero().squeeze(1)
    return UnitGroupSums(
        counts,
        rows[kept].numpy(),
        stored.sum[kept].numpy()[:, held],
        stored.squares[kept].numpy()[:, held],
    )
