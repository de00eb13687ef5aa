"""The two passes over a batch in plain PyTorch, in float64: what kernels are held to, and what runs without.

Every sum is taken in one order, so that a survey taken up again adds the same numbers as one that never stopped.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.norms import BINS, BINS_PER_OCTAVE, LOWEST_OCTAVE
from theodolite.statistics.resident.gram import add_block as add_block
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.pieces import Pieces
from theodolite.statistics.resident.tables import ResidentTable
from theodolite.statistics.rows import LONG, SHORT

MASSIVE, NONFINITE, ODD = 1, 2, 4
"""Flags of a row: its norm is massive; is not finite; is one whose square float32 cannot hold."""
COLUMNS = 128  # promoted to float64 at a time
ROWS = 8192


def limits_of(massive: float, dtype: torch.dtype, device: torch.device, *, mark_odd: bool) -> Tensor:
    """Return norms: above which a row is massive, below which it is 0, and between which it is not odd."""
    outer = (SHORT, LONG) if mark_odd else (-1.0, math.inf)
    # 1/|x| overflows below the least normal number; half precision is summed in float32, which holds all of it.
    least = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).tiny
    return torch.tensor([massive, least, *outer], dtype=torch.float64).to(device)


Targets = tuple[tuple[ResidentTable, Tensor], tuple[ResidentTable, Tensor]]
"""For the other positions and for the first: the table and, on the device, its row for each run."""


def unit_pass(
    states: Tensor, layout: Layout, centre: Tensor, limits: Tensor, targets: Targets
) -> tuple[Tensor, Tensor, Tensor]:
    """Add every unflagged row to its unit; return the rows in the layout's order, their norms and their flags.

    limits: (4,) float64, see `limits_of`.
    Returns (rows, dim) in the states' type, a copy of our own; (rows,) float64; (rows,) int8.
    """
    own = states.clone() if layout.index is None else states.index_select(0, layout.index)
    norms = torch.cat(
        [torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in torch.split(own, ROWS)]
    )
    massive, least, short, long = limits.unbind()
    norms = torch.where(norms < least, 0.0, norms)
    finite = torch.isfinite(norms)
    odd = finite & (norms > 0) & ~((norms > short) & (norms < long))
    flags = (MASSIVE * (finite & (norms > massive)) + NONFINITE * ~finite + ODD * odd).to(torch.int8)
    for first, part in layout.parts:
        table, rows = targets[first]
        _add_runs(own[part], flags[part] == 0, layout.units[first], table, rows, centre)
    return own, norms, flags


def _add_runs(x: Tensor, keep: Tensor, pieces: Pieces, table: ResidentTable, rows: Tensor, centre: Tensor) -> None:
    squares = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    centre = centre.double()
    for start in range(0, x.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        y = torch.where(keep[:, None], x[:, columns].double() - centre[columns], 0.0)
        table.sum[:, columns].index_add_(0, rows, _by_run(y, pieces))  # a row is in the index once
        squares += y.square_().sum(dim=1)
    table.squares.index_add_(0, rows, _by_run(squares, pieces))
    table.n.index_add_(0, rows, _by_run(keep.double(), pieces).long())


def _by_run(values: Tensor, pieces: Pieces) -> Tensor:
    """Return the sum of every run. (rows, ...) -> (runs, ...)"""
    return torch.segment_reduce(values, "sum", lengths=pieces.lengths, axis=0, unsafe=True)


def group_pass(own: Tensor, norms: Tensor, flags: Tensor, layout: Layout, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Return by (first, group) the sums of y = x - c, of u = x/|x|, of y^2 and of u^2, coordinate by coordinate.

    Flagged rows are left out, rows without length have no u. (40, 4, dim) float64; and how many rows were summed
    and how many have a direction, (40, 2) int64.
    """
    dim, centre = own.shape[1], centre.double()
    sums = torch.zeros(2 * GROUPS, 4 * dim, dtype=torch.float64, device=own.device)
    keep = flags == 0
    directed = keep & (norms > 0)
    inverse = torch.where(directed, 1 / norms, 0.0)
    groups = torch.arange(2 * GROUPS, device=own.device)[:, None]
    counts = [((groups == layout.of_row) & some).sum(dim=1) for some in (keep, directed)]
    for start in range(0, len(own), ROWS):
        rows = slice(start, start + ROWS)
        x = torch.where(keep[rows, None], own[rows].double(), 0.0)
        y = torch.where(keep[rows, None], x - centre, 0.0)
        u = x * inverse[rows, None]
        belongs = (groups == layout.of_row[rows]).double()
        sums += belongs @ torch.cat([y, u, y.square(), u.square()], dim=1)
    return sums.view(2 * GROUPS, 4, dim), torch.stack(counts, dim=1)


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
