"""The passes over a batch in plain PyTorch, in float64: what kernels are held to, and what runs without.

Every sum is taken in one order, so that a survey taken up again adds the same numbers as one that never stopped.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.resident.gram import Form, Sheet
from theodolite.statistics.resident.gram import add_products as add_products
from theodolite.statistics.resident.gram import products as products
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.passes import MASSIVE, NONFINITE, ODD, GroupSums, Measured
from theodolite.statistics.resident.tables import ResidentTable
from theodolite.statistics.resident.transfer import sent

COLUMNS = 128  # promoted to float64 at a time
ROWS = 8192


def measure_pass(
    states: Tensor, layout: Layout, centre: Tensor, limits: Tensor, held: GroupSums, form: Form, sheet: Sheet
) -> tuple[Measured, Tensor, Tensor]:
    """Measure and flag the rows; sum the others by group and coordinate, into `held`.

    centre: (dim,) of any type. limits: (4,) float64, see `limits_of`. Returned with what was measured: how many
    rows of the batch were summed, (2,), and the sums of y = x - c, u = x/|x|, y^2, u^2 by coordinate, (2, 4, dim).
    Rows of length 0 have no u.
    """
    parts = (states.index_select(0, some) for some in torch.split(layout.index, ROWS))
    norms = torch.cat([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])
    massive, least, short, long = limits.unbind()
    norms = torch.where(norms < least, 0.0, norms)
    finite = torch.isfinite(norms)
    odd = finite & (norms > 0) & ~((norms > short) & (norms < long))
    flags = (MASSIVE * (finite & (norms > massive)) + NONFINITE * ~finite + ODD * odd).to(torch.int8)
    n, by_cell = _add_groups(states, layout, norms, flags == 0, centre.double(), held)
    return Measured(norms, flags), n, by_cell


def _add_groups(
    states: Tensor, layout: Layout, norms: Tensor, keep: Tensor, centre: Tensor, held: GroupSums
) -> tuple[Tensor, Tensor]:
    dim = states.shape[1]
    sums = torch.zeros(2 * GROUPS, 4 * dim, dtype=torch.float64, device=states.device)
    directed = keep & (norms > 0)
    inverse = torch.where(directed, 1 / norms, 0.0)
    group = sent(layout.group, states.device)
    groups = torch.arange(2 * GROUPS, device=states.device)[:, None]
    counts = torch.stack([((groups == group) & some).sum(dim=1) for some in (keep, directed)], dim=1)
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


def unit_pass(
    states: Tensor,
    layout: Layout,
    flags: Tensor,
    form: Form,
    centre: Tensor,
    table: ResidentTable,
    rows: Tensor,
    sheet: Sheet,
) -> Tensor:
    """Add every unflagged row to its unit, and write it on the sheet to be multiplied.

    rows: (runs,) int64, each run's row in the table. Returns, in the layout's order, the states as they were:
    (rows, dim), of which only the flagged rows are promised.
    """
    own, keep = states.index_select(0, layout.index), flags == 0
    _add_runs(own, keep, sent(layout.units.lengths, states.device), table, rows, centre.double())
    _write(own, keep, layout, form, centre, sheet)
    return own


def _add_runs(
    x: Tensor, keep: Tensor, lengths: Tensor, table: ResidentTable, rows: Tensor, centre: Tensor
) -> None:
    def by_run(values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "sum", lengths=lengths, axis=0, unsafe=True)

    squares = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for start in range(0, x.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        y = torch.where(keep[:, None], x[:, columns].double() - centre[columns], 0.0)
        table.sum[:, columns].index_add_(0, rows, by_run(y))  # a row is in the index once
        squares += y.square_().sum(dim=1)
    table.squares.index_add_(0, rows, by_run(squares))
    table.n.index_add_(0, rows, by_run(keep.double()).long())


def _write(x: Tensor, keep: Tensor, layout: Layout, form: Form, centre: Tensor, sheet: Sheet) -> None:
    wide = torch.float64 if form.dtype == torch.float64 else torch.float32
    y = x.to(wide) - centre.to(wide)
    written = torch.where(form.centred, y.to(form.dtype), x.to(form.dtype))
    if form.extra:
        rest = (y[:, form.far] - written[:, form.far].to(wide)).to(form.dtype)
        written = torch.cat([written, rest], dim=1)
    where = sheet.place(torch.arange(len(x), device=x.device), layout.others)
    written = torch.where(keep[:, None], written, 0.0)
    sheet.rows.zero_().view(-1, form.width).index_copy_(0, where, written)


def add_norms(counts: Tensor, zero: Tensor, extremes: Tensor, norms: Tensor, flags: Tensor, others: int) -> None:
    """Count unflagged norms in the bins of `statistics.norms`, the first `others` rows apart from the rest.

    counts: (2, BINS) int64, zero: (2,) int64, extremes: (2, 2) float64, the lowest and the highest of each.
    """
    for part, rows in ((0, slice(0, others)), (1, slice(others, len(norms)))):
        of, keep = norms[rows], flags[rows] == 0
        if not len(of):
            continue
        positive = keep & (of > 0)
        bins = ((torch.where(positive, of, 1.0).log2() - LOWEST_OCTAVE) * BINS_PER_OCTAVE).long()
        counts[part].index_add_(0, bins.clamp_(0, BINS - 1), positive.long())
        zero[part] += (keep & (of == 0)).sum()
        low, high = torch.where(keep, of, math.inf).min(), torch.where(keep, of, -math.inf).max()
        extremes[part] = torch.stack(
            [torch.minimum(extremes[part, 0], low), torch.maximum(extremes[part, 1], high)]
        )
