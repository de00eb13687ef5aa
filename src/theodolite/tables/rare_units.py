"""What a population's rare units contribute to its tables: units without a vector, and the sample that has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.decomposition import Rest, UnitMoments
from theodolite.measures.rare_units import RareLengths, RareSpread, SampledUnits, estimate_within
from theodolite.measures.unit_sums import select_rows, to_numpy
from theodolite.statistics.cells import MASSIVE_CELLS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.statistics.rare_units import RareSums, expand_massive, odd_units

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RarePart:
    """The units of a population without a vector, and which of the others were certain to have one."""

    sums: RareSums
    spread: RareSpread
    sampled: NDArray[np.int64]  # rows, among units with a vector, of those that were sampled
    certain: NDArray[np.bool_]  # (units,) whether each unit with a vector was certain to have one

    @property
    def n(self) -> int:
        """Positions of units without a vector."""
        return int(self.sums.n.sum())

    @property
    def rest(self) -> Rest | None:
        """Their sums together; None if there are none."""
        return Rest(self.n, self.sums.sum.numpy(), self.sums.squares, self.spread.within) if self.n else None

    def certain_counts(self, n: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of units with a vector, 1 for sampled ones: sets by frequency do not have these."""
        return np.where(self.certain, n, 1)

    def moments(self) -> UnitMoments:
        """Return Q, M and V of units without a vector; M and V are NaN unless n is 1."""
        n, q = self.sums.n.numpy(), self.sums.lengths.numpy() / self.sums.n.numpy()
        single = n == 1
        return UnitMoments(q, np.where(single, q, np.nan), np.where(single, 0.0, np.nan))

    def between_by_coordinate(
        self, sums: UnitSums, mean: Array, v_between: float, known: Array, v: Array, n: int
    ) -> Array:
        """Return the estimate of v_between_i, not above v_i; the sum is V_B, if that is not above V.

        `known` is what units with a vector contribute. What exceeds v_i is divided among the other coordinates by
        what these have left.

        mean, known, v: (dim,), mean about the centre -> (dim,)
        """
        rows = self.sampled
        counts = sums.n.numpy()[rows]
        means = to_numpy(select_rows(sums.readable, rows)) / counts[:, None]
        found = (counts * self.spread.expansion) @ np.square(means - mean) / n
        left = max(v_between - float(known.sum()), 0.0)
        estimate = known + (found * (left / found.sum()) if found.sum() > 0 else found)
        limited = np.minimum(estimate, v)
        room, excess = v - limited, float((estimate - limited).sum())
        share = min(excess / room.sum(), 1.0) if room.sum() > 0 else 0.0
        return np.asarray(limited + share * room)


def find_rare(
    fold: LayerFold, cells: Sequence[int], sums: UnitSums, units: UnitMoments, names: Tensor | None = None
) -> RarePart | None:
    """Return the rare units of these cells; None if all units have a vector.

    `names` are the names of units by code, where a name is not the code (see `KeptUnits`).
    """
    kept, statistic = fold.frame.kept, fold.rare_units
    if kept is None or statistic is None:
        return None
    rare = statistic.population(cells)
    own = kept.rows_of(sums.codes if names is None else names[sums.codes])
    weights = kept.weights[own].numpy()
    rows = np.flatnonzero(weights > 1)
    n = sums.n.numpy()[rows]
    codes, tables = sums.codes[rows], fold.moments.tables
    odd = torch.isin(codes, odd_units(tables, cells)).numpy()
    massive = expand_massive(codes, [tables[cell] for cell in cells if cell in MASSIVE_CELLS], sums.centre)
    known = RareLengths(n, n * units.q[rows], massive[0].numpy(), massive[1].numpy(), odd)
    without = RareLengths(
        *(part.numpy() for part in (rare.n, rare.lengths, rare.massive_n, rare.massive_lengths, rare.odd))
    )
    spread = estimate_within(without, SampledUnits(known, n * units.v[rows], weights[rows]))
    return RarePart(rare, spread, rows, kept.certain[own].numpy())
