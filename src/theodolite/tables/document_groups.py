"""jackknife.parquet: numbers without each group of documents, whose spread gives standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.devices import to_device
from theodolite.measures.columns import FEW_GROUPS, NO_POSITION, NO_UNITS
from theodolite.measures.cosine import mean_cosine
from theodolite.measures.decomposition import UnitMoments
from theodolite.measures.resampling import (
    MIN_GROUPS,
    NUMBERS,
    GroupSums,
    RestByGroup,
    UnitGroupSums,
    delete_groups,
    delete_groups_of_all,
    group_error,
)
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.tables.rare_units import RarePart
from theodolite.tables.shape import TOO_WIDE
from theodolite.tables.unit_sets import NEEDED, WITH_RARE, make_sets

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
        stacked = np.stack(list(self.values.values()), axis=1) if self.values else np.zeros((0, 0))
        found = {
            name: (float(error), unknown) for name, error in zip(self.values, group_error(stacked), strict=True)
        }
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
    rare: RarePart | None = None,
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
    found._put("", [name for name in WITHOUT_UNITS if name in NUMBERS], delete_groups_of_all(groups, centre))
    left = zip(directed.sum() - directed, directions.sum(axis=0) - directions, strict=True)
    found.values["mean_cosine"] = np.array([mean_cosine(int(number), total) for number, total in left])
    by_unit = None if special is None else _sum_by_unit(fold, cells, sums, held, n, rare)
    if special is None or by_unit is None:
        found.reasons = dict.fromkeys([*BY_UNIT, *set_columns], NO_UNITS if special is None else NO_COUNTS)
        return found
    counted, rest = by_unit
    sets = make_sets(sums.n.numpy() if rare is None else rare.certain_counts(sums.n.numpy()), special)
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
        counted,
        rest,
        np.array([prefix in WITH_RARE for prefix in used]),
    )
    for prefix, of_set in zip(used, estimates, strict=True):
        found._put(prefix, NUMBERS if prefix else BY_UNIT, of_set)
    return found


def _sum_by_unit(
    fold: LayerFold,
    cells: Sequence[int],
    sums: UnitSums,
    held: NDArray[np.bool_],
    n: NDArray[np.int64],
    rare: RarePart | None,
) -> tuple[UnitGroupSums, RestByGroup | None] | None:
    """Return counts by unit in non-empty groups, and sums of frequent units; None if counts are missing.

    Also returns the sums of the units without a vector, and what they lose without each group.
    """
    counted = fold.unit_groups.population(cells)
    counts, codes = counted.n.numpy()[:, held], sums.codes
    rest = None
    if rare is not None:
        codes, order = torch.cat([codes, rare.sums.codes]).sort()
    if not torch.equal(counted.codes, codes) or not np.array_equal(counts.sum(axis=0), n):
        return None
    if rare is not None:
        without = (order >= len(sums.codes)).numpy()
        if rare.rest is not None:
            rest = RestByGroup.of(rare.rest, rare.sums.n.numpy(), rare.spread.by_unit, counts[without])
        counts = counts[~without]
    device = None if sums.sum.device.type == "cpu" else sums.sum.device
    stored = fold.frequent_units.population(cells, device)
    known = torch.isin(stored.codes, sums.codes).nonzero().squeeze(1)
    rows = torch.searchsorted(sums.codes, stored.codes[known])
    # A unit that was not frequent in the pilot of a merged part lacks occurrences: it counts as any other.
    complete = (stored.n[known].sum(1) == sums.n[rows]).nonzero().squeeze(1)
    kept, rows = known[complete], rows[complete]
    total = stored.sum[to_device(kept, stored.sum.device)]
    if not held.all():
        total = total[:, to_device(torch.from_numpy(held), total.device)]
    return (
        UnitGroupSums(
            counts,
            rows.numpy(),
            total,
            stored.squares[kept].numpy()[:, held],
        ),
        rest,
    )
