"""The reference version of the computations on a device: PyTorch in float64, used where Triton is not available.

Kernels are tested against it. Every sum is taken in a fixed order, so that a resumed survey adds the same numbers
as one that was never interrupted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.devices import to_device
from theodolite.statistics.cuda.gram import GramFormat, GramRows
from theodolite.statistics.cuda.gram import add_products as add_products
from theodolite.statistics.cuda.gram import products as products
from theodolite.statistics.cuda.layout import Layout
from theodolite.statistics.cuda.tables import GpuSums, GpuUnitTable
from theodolite.statistics.cuda.transfer import send
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.rows import LONG, SHORT

MASSIVE, NONFINITE, ODD, SINK = 1, 2, 4, 8
"""Flags of a row: its norm is massive; is not finite; its square overflows or underflows in float32; its position
is massive at some layer, this one or another."""


@dataclass(frozen=True)
class Measurements:
    """The norms and flags of the rows of a batch, in the order of the layout."""

    norms: Tensor  # (rows,) float64; undefined for flagged rows
    flags: Tensor  # (rows,) int8
    pieces: tuple[Tensor, Tensor] | None = None  # of kernels: the sums of each piece of a group, and its counts


class GroupSums(NamedTuple):
    """Sums of two cells, other and first positions, by group and coordinate. y = x - c, u = x/|x|."""

    groups: Tensor  # (2, 20, 2, dim) float64, of y and of u
    squares: Tensor  # (2, 20) float64, of |y|^2
    cells: Tensor  # (2, 4, dim) float64, of y, u, y^2 and u^2
    n: Tensor  # (2, 20, 2) int64, rows summed, and rows with a direction


def norm_limits(massive: float, dtype: torch.dtype, device: torch.device, *, mark_odd: bool) -> Tensor:
    """Return the norms above which a row is massive, below which it is 0, and between which it is not odd."""
    outer = (SHORT, LONG) if mark_odd else (-1.0, math.inf)
    # 1/|x| overflows below the smallest normal number; half precision is summed in float32, which holds its range.
    least = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).tiny
    return to_device(torch.tensor([massive, least, *outer], dtype=torch.float64), device)


COLUMNS = 128  # promoted to float64 at a time
ROWS = 8192


def measure(
    states: Tensor, layout: Layout, limits: Tensor, centre: Tensor, held: Tensor | None = None, gap: int = 0
) -> Measurements:
    """Return the norms and flags of the rows; copy the states to `held` in the order of the layout.

    limits: (4,) float64, see `norm_limits`. held: (rows with padding, dim), `gap` of them before first positions.
    """
    norms = _norms(states, layout)
    massive, least, short, long = limits.unbind()
    norms = torch.where(norms < least, 0.0, norms)
    finite = torch.isfinite(norms)
    odd = finite & (norms > 0) & ~((norms > short) & (norms < long))
    flags = (MASSIVE * (finite & (norms > massive)) + NONFINITE * ~finite + ODD * odd).to(torch.int8)
    if held is not None:
        held.index_copy_(0, layout.in_order(gap).index.long(), states.index_select(0, layout.index))
    return Measurements(norms, flags)


def _norms(states: Tensor, layout: Layout) -> Tensor:
    parts = (states.index_select(0, block) for block in torch.split(layout.index, ROWS))
    return torch.cat([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])


def sum_groups(
    states: Tensor, layout: Layout, measured: Measurements, centre: Tensor, held: GroupSums, *, again: bool
) -> tuple[Tensor, Tensor]:
    """Add the unflagged rows by group and coordinate to `held`; `again` if rows were flagged after `measure`.

    centre: (dim,) of any dtype. Returns the number of rows that were added, (2,), and their sums of y = x - c,
    u = x/|x|, y^2, u^2 by coordinate, (2, 4, dim). Rows of length 0 have no u.
    """
    return _add_groups(states, layout, measured.norms, measured.flags == 0, centre.double(), held)


def _add_groups(
    states: Tensor, layout: Layout, norms: Tensor, keep: Tensor, centre: Tensor, held: GroupSums
) -> tuple[Tensor, Tensor]:
    dim = states.shape[1]
    sums = torch.zeros(2 * GROUPS, 4 * dim, dtype=torch.float64, device=states.device)
    directed = keep & (norms > 0)
    inverse = torch.where(directed, 1 / norms, 0.0)
    group = send(layout.group, states.device)
    groups = torch.arange(2 * GROUPS, device=states.device)[:, None]
    counts = torch.stack([((groups == group) & selected).sum(dim=1) for selected in (keep, directed)], dim=1)
    for start in range(0, len(layout), ROWS):
        rows = slice(start, start + ROWS)
        x = torch.where(keep[rows, None], states.index_select(0, layout.index[rows]).double(), 0.0)
        y = torch.where(keep[rows, None], x - centre, 0.0)
        u = x * inverse[rows, None]
        belongs = (groups == group[rows]).double()
        sums += belongs @ torch.cat([y, u, y.square(), u.square()], dim=1)
    by_group, counts = sums.view(2, GROUPS, 4, dim), counts.view(2, GROUPS, 2)
    by_cell = by_group.sum(dim=1)
    held.groups.add_(by_group[:, :, :2])
    held.squares.add_(by_group[:, :, 2].sum(dim=2))
    held.cells.add_(by_cell)
    held.n.add_(counts)
    return counts[:, :, 0].sum(dim=1).double(), by_cell


def add_units(
    states: Tensor,
    layout: Layout,
    flags: Tensor,
    gram_format: GramFormat,
    centre: Tensor,
    table: GpuUnitTable,
    rows: Tensor,
    gram_rows: GramRows,
    frequent: GpuSums,
) -> Tensor:
    """Add every unflagged row to its unit, of frequent units also to its group, and write it to `gram_rows`.

    These may be the states themselves. rows: (runs,) int64, the table row of each run. Returns a copy of the
    states in the order of the layout, (rows, dim), of which only the flagged rows are defined.
    """
    own, keep = states.index_select(0, layout.index), flags == 0
    _add_runs(own, keep, send(layout.units.lengths, states.device), table, rows, centre.double())
    if layout.frequent.runs:
        of, lengths = (send(part, states.device) for part in (layout.frequent.rows, layout.frequent.lengths))
        _add_runs(own[of], keep[of], lengths, frequent, layout.frequent.keys.long(), centre.double())
    _write(own, keep, layout, gram_format, centre, gram_rows)
    return own


def _add_runs(x: Tensor, keep: Tensor, lengths: Tensor, table: GpuSums, rows: Tensor, centre: Tensor) -> None:
    def by_run(values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "sum", lengths=lengths, axis=0, unsafe=True)

    squares = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for start in range(0, x.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        y = torch.where(keep[:, None], x[:, columns].double() - centre[columns], 0.0)
        table.sum[:, columns].index_add_(0, rows, by_run(y))  # the index has no duplicates
        squares += y.square_().sum(dim=1)
    table.squares.index_add_(0, rows, by_run(squares))
    table.n.index_add_(0, rows, by_run(keep.double()).long())


def _write(
    x: Tensor, keep: Tensor, layout: Layout, gram_format: GramFormat, centre: Tensor, gram_rows: GramRows
) -> None:
    wide = torch.float64 if gram_format.dtype == torch.float64 else torch.float32
    y = x.to(wide) - centre.to(wide)
    written = torch.where(gram_format.centred, y.to(gram_format.dtype), x.to(gram_format.dtype))
    remainder = (y[:, gram_format.far] - written[:, gram_format.far].to(wide)).to(gram_format.dtype)
    positions = gram_rows.place(torch.arange(len(x), device=x.device), layout.others)
    for into, values in ((gram_rows.rows, written), (gram_rows.remainders, remainder)):
        into.zero_().flatten(0, 1).index_copy_(0, positions, torch.where(keep[:, None], values, 0.0))


def add_norms(counts: Tensor, zero: Tensor, extremes: Tensor, norms: Tensor, flags: Tensor, others: int) -> None:
    """Count unflagged norms in the bins of `statistics.norms`, the first `others` rows separately from the others.

    counts: (2, BINS) int64, zero: (2,) int64, extremes: (2, 2) float64, the lowest and the highest of each.
    """
    for part, rows in ((0, slice(0, others)), (1, slice(others, len(norms)))):
        part_norms, keep = norms[rows], flags[rows] == 0
        if not len(part_norms):
            continue
        positive = keep & (part_norms > 0)
        bins = ((torch.where(positive, part_norms, 1.0).log2() - LOWEST_OCTAVE) * BINS_PER_OCTAVE).long()
        counts[part].index_add_(0, bins.clamp_(0, BINS - 1), positive.long())
        zero[part] += (keep & (part_norms == 0)).sum()
        low, high = torch.where(keep, part_norms, math.inf).min(), torch.where(keep, part_norms, -math.inf).max()
        extremes[part] = torch.stack(
            [torch.minimum(extremes[part, 0], low), torch.maximum(extremes[part, 1], high)]
        )
