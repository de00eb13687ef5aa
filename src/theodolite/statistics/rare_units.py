"""Rare units: where the vectors of all units do not fit in memory, most units with few occurrences have none.

Which units have a vector is decided before the fold, from the occurrences of every unit in the whole corpus. All
units with at least `min_count` occurrences have one, and so has a sample of the others, chosen by hash, from which
the spread within the rest is estimated (measures/rare_units.py). Units at the start of a window are sampled apart:
in many decoders the first position is a sink, and a few such units have most of the spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.count_strata import find_strata
from theodolite.hashing import mix
from theodolite.statistics.cells import CELLS, MASSIVE_CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.statistics.unit_table import UnitTable, add_tables

Ints = NDArray[np.int64]
SAMPLED = 4096
"""Rare units whose vectors are kept, and as many of those that occur at the start of a window."""
MIN_SAMPLED = 16
"""The least number of sampled units with the same number of occurrences, as far as there are so many."""
SALT = 0x72617265  # keeps the choice of units independent of other hashes


@dataclass(frozen=True, eq=False)
class KeptUnits:
    """The units of a corpus by name, and which of them have a vector.

    The name is the code or, where codes depend on the order in which units occur, the hash of the unit. The weight
    of a unit is 0 if it has no vector, 1 if it was certain to have one, and otherwise the inverse of the share
    that was chosen of the units with as many occurrences. All tensors are (units,).
    """

    min_count: int
    names: Tensor  # int64, sorted
    n: Tensor  # int64, occurrences in the whole corpus
    weights: Tensor  # float64

    @property
    def vectors(self) -> int:
        """The number of units that have a vector."""
        return int((self.weights > 0).sum())

    @cached_property
    def certain(self) -> Tensor:
        """Whether a unit, and each with about as many occurrences, has a vector. (units,)"""
        rare, strata = (self.n < self.min_count).numpy(), find_strata(self.n.numpy())
        sampled = strata[rare & (self.weights.numpy() != 1)]
        return torch.from_numpy(~(rare & np.isin(strata, sampled)))

    def __len__(self) -> int:
        return len(self.names)

    def rows_of(self, names: Tensor) -> Tensor:
        """Return the row of each name, -1 for a unit that the corpus does not have. (any,) -> (any,)"""
        at = torch.searchsorted(self.names, names).clamp_(max=max(len(self.names) - 1, 0))
        return torch.where(self.names[at] == names, at, -1) if len(self.names) else torch.full_like(names, -1)

    def weights_of(self, names: Tensor) -> Tensor:
        """Return the weight of each name, 0 for a unit that the corpus does not have. (any,) -> (any,)"""
        rows = self.rows_of(names)
        found = (
            self.weights[rows.clamp(min=0)] if len(self.names) else torch.zeros(len(names), dtype=torch.float64)
        )
        return torch.where(rows >= 0, found, 0.0)

    def has_vector(self, unit: Tensor, unit_hash: Tensor | None = None) -> Tensor:
        """Return whether the unit of each row has a vector. (rows,) -> (rows,)"""
        return self.weights_of(unit if unit_hash is None else unit_hash) > 0


def choose_units(
    names: Ints,
    n: Ints,
    min_count: int,
    *,
    always: Iterable[int] = (),
    first: Iterable[int] = (),
    sampled: int = SAMPLED,
    seed: int = 0,
) -> KeptUnits:
    """Choose the units that have a vector: a pure function of the counts, so that parts of a corpus agree.

    The sample has a share for each number of occurrences (above 16: for each doubling of it), in proportion to the
    positions of the units. In each of these strata the units of smallest hash are chosen. Units in `first`, which
    occur at the start of a window, are sampled apart from the others in the same way. Of `sampled` units or fewer
    all are chosen. Units in `always` have a vector whatever their count. names, n: (units,)

    >>> chosen = choose_units(np.arange(100), np.repeat([1, 2, 50], [60, 30, 10]), 10, sampled=30)
    >>> chosen.vectors, sorted(set(chosen.weights.tolist()))
    (42, [0.0, 1.0, 1.875, 3.75])
    """
    order = np.argsort(names)
    names, n = names[order], n[order]
    rare = (n < min_count) & ~np.isin(names, np.fromiter(always, dtype=np.int64))
    weights = np.where(rare, 0.0, 1.0)
    key = mix(SALT + seed, names.view(np.uint64))
    strata = find_strata(n)
    at_start = np.isin(names, np.fromiter(first, dtype=np.int64))
    for group in (rare & ~at_start, rare & at_start):
        for count in np.unique(strata[group]):
            stratum = np.flatnonzero(group & (strata == count))
            size, share = len(stratum), n[stratum].sum() / n[group].sum()
            chosen = min(size, max(MIN_SAMPLED, round(sampled * share))) if sampled else 0
            chosen = size if group.sum() <= sampled else chosen
            weights[stratum[np.argsort(key[stratum])[:chosen]]] = size / max(chosen, 1)
    return KeptUnits(min_count, *(torch.from_numpy(part) for part in (names, n, weights)))


def distinct_min_counts(n: Ints) -> Ints:
    """Return the values of min_count that differ in their effect, smallest first. (units,) -> (values,)

    >>> distinct_min_counts(np.array([1, 1, 3])).tolist()
    [1, 2, 4]
    """
    return np.concatenate([[1], np.unique(n) + 1])


class RareSums(NamedTuple):
    """The units of a population that have no vector: by unit the sum of |x|^2, and all sums together."""

    codes: Tensor  # (units,) int64, sorted
    n: Tensor  # (units,) int64
    lengths: Tensor  # (units,) float64, sum of |x|^2
    massive_n: Tensor  # (units,) int64, positions whose norm is massive
    massive_lengths: Tensor  # (units,) float64, sum of |x|^2 over these
    odd: Tensor  # (units,) bool, whether a position is massive at some layer
    sum: Tensor  # (dim,) float64, of x - c over all these units
    squares: float  # of |x - c|^2 over all these units


class RareUnits(Statistic):
    """By cell, for units without a vector: n and the sum of |x|^2 of each, and their sum of x - c together.

    Sums of |x|^2 do not depend on the centre, so that they are merged exactly whatever the centres. Memory: 24
    bytes per unit seen.
    """

    name: ClassVar[str] = "rare_units"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.tables = [UnitTable(0) for _ in CELLS]
        self.sum = torch.zeros(len(CELLS), frame.dim, dtype=torch.float64)
        self.squares = torch.zeros(len(CELLS), dtype=torch.float64)

    def update(self, rows: Rows) -> None:
        """Add the rows of units without a vector. O(rows x dim)."""
        for cell, part in rows.cells:
            rare = rows.without_vector(part)
            if len(rare):
                x = rows.x[rare].double()
                self.add_lengths(cell, rows.places.unit[rare], x.square().sum(dim=1))
                x -= rows.centre
                self.sum[cell] += x.sum(dim=0)
                self.squares[cell] += x.square_().sum()

    def add_lengths(self, cell: int, unit: Tensor, lengths: Tensor) -> None:
        """Count rows and add their |x|^2 by unit. (rows,) each"""
        codes, row = torch.unique(unit, return_inverse=True)
        total = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, row, lengths)
        self.tables[cell].add_sums(codes, torch.bincount(row, minlength=len(codes)), _no_vectors(codes), total)

    def merge(self, other: Self) -> None:
        """Add the sums."""
        for mine, theirs in zip(self.tables, other.tables, strict=True):
            mine.add_sums(theirs.codes, theirs.n, theirs.sum, theirs.squares)
        self.sum += other.sum
        self.squares += other.squares

    def state(self) -> State:
        """Return the sums by cell, and three tensors for each cell that is not empty."""
        parts: State = {"sum": self.sum, "squares": self.squares}
        for cell, table in zip(CELLS, self.tables, strict=True):
            if table.size:
                parts |= {f"{cell}.codes": table.codes, f"{cell}.n": table.n, f"{cell}.lengths": table.squares}
        return parts

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the tables, which are empty if all units have a vector, and of the sums by cell."""
        rare = 0 if frame.kept is None else units
        return UnitTable.expected_bytes(0, rare) + 8 * len(CELLS) * (frame.dim + 1)

    def load(self, state: State) -> None:
        """Restore the sums."""
        self.tables = [UnitTable(0) for _ in CELLS]
        self.sum, self.squares = state["sum"], state["squares"]
        for cell, table in zip(CELLS, self.tables, strict=True):
            if f"{cell}.codes" in state:
                codes, n, lengths = (state[f"{cell}.{part}"] for part in ("codes", "n", "lengths"))
                table.load(codes, n, _no_vectors(codes), lengths)

    def recentre(self, centre: Tensor) -> None:
        """Change the sums over all units to the other centre; sums of |x|^2 have none."""
        shift = self.frame.centre.double() - centre.double()
        n = torch.tensor([float(table.n.sum()) for table in self.tables], dtype=torch.float64)
        self.squares += 2 * (self.sum @ shift) + n * (shift @ shift)
        self.squares.clamp_(min=0)
        self.sum += n[:, None] * shift

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for table in self.tables:
            table.recode(codes)

    def population(self, cells: Iterable[int]) -> RareSums:
        """Return the sums of these cells together."""
        chosen = list(cells)
        codes, n, _, lengths = add_tables([self.tables[cell] for cell in chosen], 0)
        odd = torch.isin(codes, odd_units(self.tables, chosen))
        massive = expand_massive(codes, [self.tables[cell] for cell in chosen if cell in MASSIVE_CELLS])
        total = self.sum[chosen].sum(dim=0), float(self.squares[chosen].sum())
        return RareSums(codes, n, lengths, *massive, odd, *total)


def expand_massive(
    codes: Tensor, tables: Sequence[UnitTable], centre: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return n and the sum of |x|^2 of these units over tables of massive positions. (units,) -> (units,) each

    codes: sorted. The sums of the tables are about the centre, if one is given, and otherwise about 0.
    """
    n, lengths = torch.zeros(len(codes), dtype=torch.int64), torch.zeros(len(codes), dtype=torch.float64)
    for table in tables:
        known = torch.isin(table.codes, codes)
        rows, squares = torch.searchsorted(codes, table.codes[known]), table.squares[known]
        if centre is not None:
            squares = squares + 2 * table.sum[known] @ centre + table.n[known] * (centre @ centre)
        n[rows] += table.n[known]
        lengths[rows] += squares
    return n, lengths


def odd_units(tables: Sequence[UnitTable], cells: Iterable[int]) -> Tensor:
    """Return the codes of the units with a position, in these cells, that is massive at some layer. (units,)"""
    found = [tables[cell].codes for cell in cells if cell > 1]
    codes: Tensor = torch.unique(torch.cat([torch.zeros(0, dtype=torch.int64), *found]))
    return codes


def _no_vectors(codes: Tensor) -> Tensor:
    return torch.zeros(len(codes), 0, dtype=torch.float64)
