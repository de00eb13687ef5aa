"""Field groups: the sums of each group of documents that share a value of a field, such as a language."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar, Self

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame
from theodolite.statistics.moments import UnitSums
from theodolite.statistics.norms import BINS, find_bins
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.statistics.unit_table import CHUNK, SparseTable, UnitTable, add_tables

ADDED = ("n", "sum", "squares", "directed", "directions", "direction_squares", "counts", "zero")
"""Sums of a cell that are added when cells are merged."""
OF_UNITS = ("codes", "n", "sum", "squares")
UNITS = 2**40
"""More than there are units: unit u of group g has the code g UNITS + u."""


class CellGroups:
    """The sums of one cell by group of the field.

    n, sum of x - c, sum of |x - c|^2, vectors other than 0 and sum of x/|x| are also by document group, whose
    spread gives the errors: (groups, 20, ...). The squares of x/|x|, the histogram of norms, the count of zero
    vectors and the extremes of the norms are by group: (groups, ...). `products` are the sums of (x - c)(x - c)^T
    of the groups that have a matrix, by group. `units` has n, sum of x - c and of |x - c|^2 by group and unit.
    """

    def __init__(self, groups: int, dim: int) -> None:
        self.n = torch.zeros(groups, GROUPS, dtype=torch.int64)
        self.sum = torch.zeros(groups, GROUPS, dim, dtype=torch.float64)
        self.squares = torch.zeros(groups, GROUPS, dtype=torch.float64)
        self.directed = torch.zeros(groups, GROUPS, dtype=torch.int64)
        self.directions = torch.zeros(groups, GROUPS, dim, dtype=torch.float64)
        self.direction_squares = torch.zeros(groups, dim, dtype=torch.float64)
        self.counts = torch.zeros(groups, BINS, dtype=torch.int64)
        self.zero = torch.zeros(groups, dtype=torch.int64)
        self.lowest = torch.full((groups,), math.inf, dtype=torch.float64)
        self.highest = torch.full((groups,), -math.inf, dtype=torch.float64)
        self.products: dict[int, Tensor] = {}
        self.units = SparseTable(dim)

    def update(self, rows: Rows, part: slice, matrices: int, without_units: Tensor) -> None:
        """Add the rows of the cell. O(rows x dim), and O(rows x dim^2) for groups with a matrix."""
        assert rows.places.by is not None, "the source gives no groups"
        by, norms = rows.places.by[part], rows.norms[part]
        at = by * GROUPS + rows.places.group[part]
        cells, dim = self.n.numel(), self.sum.shape[-1]
        self.n += torch.bincount(at, minlength=cells).reshape(self.n.shape)
        self.directed += torch.bincount(at[norms > 0], minlength=cells).reshape(self.n.shape)
        total, squares, directions = (
            self.sum.view(cells, dim),
            self.squares.view(-1),
            self.directions.view(cells, dim),
        )
        centre = rows.centre.double()
        for start in range(0, len(by), CHUNK):
            chunk = slice(start, min(start + CHUNK, len(by)))
            x = rows.x[part][chunk].double()
            y = x - centre
            total.index_add_(0, at[chunk], y)
            squares.index_add_(0, at[chunk], y.square_().sum(dim=1))
            lengths = torch.linalg.vector_norm(x, dim=1)
            unit = x * torch.where(norms[chunk] > 0, 1 / lengths, 0.0)[:, None]
            directions.index_add_(0, at[chunk], unit)
            self.direction_squares.index_add_(0, by[chunk], unit.square_())
        self._add_norms(by, norms)
        self._add_products(by, rows.centred[part], matrices)
        with_units = (~without_units[by]).nonzero().squeeze(1)
        if len(with_units):
            codes = by[with_units] * UNITS + rows.places.unit[part][with_units]
            x = rows.x[part] if len(with_units) == len(by) else rows.x[part][with_units]
            self.units.add_rows(codes, x, rows.centre)

    def _add_norms(self, by: Tensor, norms: Tensor) -> None:
        self.lowest.scatter_reduce_(0, by, norms, "amin")
        self.highest.scatter_reduce_(0, by, norms, "amax")
        positive = norms > 0
        self.zero += torch.bincount(by[~positive], minlength=len(self.zero))
        bins, counts = torch.unique(by[positive] * BINS + find_bins(norms[positive]), return_counts=True)
        self.counts.view(-1)[bins] += counts

    def _add_products(self, by: Tensor, centred: Tensor, matrices: int) -> None:
        """Add the products of each group that has a matrix, in the precision of `Scatter`."""
        order = torch.argsort(by, stable=True)
        sizes = torch.bincount(by, minlength=len(self.zero)).tolist()
        for group, mine in enumerate(order.split_with_sizes(sizes)[:matrices]):
            if len(mine):
                y = centred[mine]
                self.matrix(group).add_(y.T @ y)

    def matrix(self, group: int) -> Tensor:
        """Return the sum of products of a group, 0 if it has none yet. (dim, dim)"""
        if group not in self.products:
            dim = self.sum.shape[-1]
            self.products[group] = torch.zeros(dim, dim, dtype=torch.float64)
        return self.products[group]

    def without_matrix(self) -> set[int]:
        """Return the groups that have rows and no matrix."""
        return {group for group, n in enumerate(self.n.sum(1).tolist()) if n and group not in self.products}

    def add(self, other: CellGroups, codes: Tensor | None = None) -> None:
        """Add the sums of another cell; its group k becomes codes[k], or stays k. (groups,)

        A group keeps its matrix only if all of its rows are in it.
        """
        codes = torch.arange(len(other.zero)) if codes is None else codes
        incomplete = self.without_matrix() | {int(codes[group]) for group in other.without_matrix()}
        for name in ADDED:
            getattr(self, name).index_add_(0, codes, getattr(other, name))
        self.lowest.scatter_reduce_(0, codes, other.lowest, "amin")
        self.highest.scatter_reduce_(0, codes, other.highest, "amax")
        for group, products in other.products.items():
            self.matrix(int(codes[group])).add_(products)
        for group in incomplete & set(self.products):
            del self.products[group]
        units = other.units
        self.units.add_sums(
            codes[units.codes // UNITS] * UNITS + units.codes % UNITS, units.n, units.sum, units.squares
        )


class FieldGroups(Statistic):
    """By cell and group of a field: what `Moments`, `Directions`, `Norms`, `Groups` and `Scatter` keep of a cell.

    Float64, apart from the products. The groups are numbered from 0, the most frequent values first; the first
    `by_matrices` have a matrix. The first groups also have sums by unit: as many as have `by_rows` rows together.
    Rows only become more, so a group that has lost its sums would not fit at the end either: which groups have
    them does not depend on the order of the rows. Empty cells have no sums.
    Memory: 320 dim + 51 kB bytes per cell and group, 8 dim^2 bytes per cell and matrix, and 8 (dim + 3) bytes per
    cell, group and unit, at most `by_rows` times.
    """

    name: ClassVar[str] = "field_groups"

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.cells: dict[int, CellGroups] = {}
        self.nonfinite = torch.zeros(len(CELLS), frame.by_groups, dtype=torch.int64)
        self.without_units = torch.full((frame.by_groups,), not frame.by_rows)

    def update(self, rows: Rows) -> None:
        """Add the rows to the groups of their documents."""
        if rows.nonfinite_by is not None:
            self.nonfinite += rows.nonfinite_by
        for cell, part in rows.cells:
            self._cell(cell).update(rows, part, self.frame.by_matrices, self.without_units)
        self._limit_rows()

    def merge(self, other: Self) -> None:
        """Add the sums."""
        self.nonfinite += other.nonfinite
        for cell, theirs in other.cells.items():
            self._cell(cell).add(theirs)
        self._remove_units(other.without_units)
        self._limit_rows()

    def regroup(self, frame: Frame, codes: Tensor) -> None:
        """Change the groups: group k becomes codes[k] of the groups of another frame. (groups,)"""
        before, self.cells, self.frame = self.cells, {}, frame
        nonfinite = torch.zeros(len(CELLS), frame.by_groups, dtype=torch.int64)
        self.nonfinite = nonfinite.index_add_(1, codes, self.nonfinite)
        for cell, theirs in before.items():
            self._cell(cell).add(theirs, codes)
        lacking = codes[self.without_units]
        self.without_units = torch.full((frame.by_groups,), not frame.by_rows)
        self._remove_units(self.without_units.index_fill(0, lacking, True))
        self._limit_rows()

    def _limit_rows(self) -> None:
        """Remove the sums by unit of the last groups if there are more rows than allowed."""
        if sum(sums.units.size for sums in self.cells.values()) > self.frame.by_rows:
            group = torch.cat([sums.units.codes // UNITS for sums in self.cells.values()])
            rows = torch.bincount(group, minlength=self.frame.by_groups)
            self._remove_units(rows.cumsum(0) > self.frame.by_rows)

    def _remove_units(self, groups: Tensor) -> None:
        """Remove the sums by unit of these groups. (groups,)"""
        self.without_units |= groups
        for sums in self.cells.values():
            lacking = self.without_units[sums.units.codes // UNITS]
            if lacking.any():
                sums.units.select((~lacking).nonzero().squeeze(1))

    def unit_sums(self, group: int, cells: Iterable[int]) -> UnitSums | None:
        """Return the sums by unit of a group in these cells, None if there are none for lack of memory."""
        if self.without_units[group]:
            return None
        tables = []
        for cell in cells:
            if cell in self.cells:
                stored, own = self.cells[cell].units, UnitTable(self.frame.dim)
                rows = (stored.codes // UNITS == group).nonzero().squeeze(1)
                own.load(stored.codes[rows] % UNITS, stored.n[rows], stored.sum[rows], stored.squares[rows])
                tables.append(own)
        return UnitSums(*add_tables(tables, self.frame.dim), self.frame.centre.double())

    def state(self) -> State:
        """Return the sums of each cell, and each matrix by cell and group."""
        found: State = {"nonfinite": self.nonfinite, "without_units": self.without_units}
        for cell, sums in sorted(self.cells.items()):
            parts = {name: getattr(sums, name) for name in (*ADDED, "lowest", "highest")}
            parts |= {f"{group}.products": matrix for group, matrix in sorted(sums.products.items())}
            if sums.units.size:
                parts |= {f"units.{name}": getattr(sums.units, name) for name in OF_UNITS}
            found |= {f"{CELLS[cell]}.{name}": part for name, part in parts.items()}
        return found

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the sums and matrices of all groups, and of their sums by unit."""
        by_group = GROUPS * (16 * frame.dim + 24) + 8 * frame.dim + 8 * (BINS + 3)
        rows = min(frame.by_rows, frame.by_groups * units)
        matrices = cells * (frame.by_groups * by_group + frame.by_matrices * 8 * frame.dim**2)
        return matrices + SparseTable.expected_bytes(frame.dim, rows)

    def load(self, state: State) -> None:
        """Restore the sums; those of an older version have no units."""
        self.nonfinite, self.cells = state["nonfinite"], {}
        self.without_units = state.get("without_units", torch.ones(self.frame.by_groups, dtype=torch.bool))
        for cell, prefix in enumerate(f"{name}." for name in CELLS):
            found = {key.removeprefix(prefix): part for key, part in state.items() if key.startswith(prefix)}
            if not found:
                continue
            sums = self._cell(cell)
            for key, part in found.items():
                group, _, name = key.rpartition(".")
                if name == "products":
                    sums.products[int(group)] = part
                elif not group:
                    setattr(sums, key, part)
            if "units.codes" in found:
                sums.units.load(*(found[f"units.{name}"] for name in OF_UNITS))

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to the other centre, in float64."""
        shift = self.frame.centre.double() - centre.double()
        for sums in self.cells.values():
            n, total = sums.n.sum(1).double(), sums.sum.sum(1)
            for group, matrix in sums.products.items():
                cross = torch.outer(total[group], shift)
                matrix += cross + cross.T + n[group] * torch.outer(shift, shift)
            sums.squares += 2 * (sums.sum @ shift) + sums.n * (shift @ shift)
            sums.sum += sums.n[..., None] * shift
            sums.units.recentre(shift)

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for sums in self.cells.values():
            of = sums.units
            changed = of.codes // UNITS * UNITS + codes[of.codes % UNITS] if of.size else of.codes
            of.load(changed, of.n, of.sum, of.squares)

    def _cell(self, cell: int) -> CellGroups:
        if cell not in self.cells:
            self.cells[cell] = CellGroups(self.frame.by_groups, self.frame.dim)
        return self.cells[cell]
