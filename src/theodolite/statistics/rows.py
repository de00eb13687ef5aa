"""Rows: the batch of a layer, prepared once for all statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.cells import CELLS, MASSIVE_CELLS, SINK_CELLS
from theodolite.statistics.frame import Frame

SHORT, LONG = 1e-12, 1e15
"""Between these norms the squares of a batch can be summed in float32; other norms are computed in float64."""


@dataclass(frozen=True)
class Rows:
    """The finite rows of a batch, sorted by cell and then by unit.

    After sorting, every cell is a slice (a view, not a copy) and equal units are adjacent.
    """

    x: Tensor  # (rows, dim) float32, or float64 if the states are
    norms: Tensor  # (rows,) float64; the norm of a row does not depend on the other rows
    places: Places
    cells: tuple[tuple[int, slice], ...]  # (cell, its rows), for cells that have rows
    nonfinite: Tensor  # (cells,) int64, excluded rows: a coordinate or the norm is NaN or infinite
    centre: Tensor  # (dim,)
    kept: Tensor | None = None  # (rows,) bool, whether the unit has a vector; None: all have one
    nonfinite_by: Tensor | None = None  # (cells, groups) int64, the excluded rows by group of a field
    attention: Mapping[str, Tensor] | None = None  # sums over the attention of the block

    def with_vector(self, part: slice) -> slice | Tensor:
        """Return the rows of a cell whose unit has a vector."""
        return part if self.kept is None else self.kept[part].nonzero().squeeze(1) + part.start

    def without_vector(self, part: slice) -> Tensor:
        """Return the rows of a cell whose unit has no vector. (rows,)"""
        if self.kept is None:
            return torch.zeros(0, dtype=torch.int64)
        rows: Tensor = (~self.kept[part]).nonzero().squeeze(1) + part.start
        return rows

    @cached_property
    def centred(self) -> Tensor:
        """x - c in the dtype of x, or in float64 if float32 squares may overflow or all underflow. (rows, dim)"""
        wide = len(self.norms) > 0 and (float(self.norms.max()) > LONG or float(self.norms.max()) < SHORT)
        return self.x.double() - self.centre if wide else self.x - self.centre

    @cached_property
    def inverse_norms(self) -> Tensor:
        """1/|x| in the dtype of x, and 0 for a zero vector, which has no direction. (rows,)"""
        return torch.where(self.norms > 0, 1 / self.norms, 0.0).to(self.x.dtype)

    @classmethod
    def of(cls, batch: Batch, frame: Frame, norms: Tensor | None = None, sinks: Tensor | None = None) -> Rows:
        """Sort a batch into cells. O(rows x dim), without a copy if the source has sorted it already.

        `norms` are those of `row_norms`, if known; `sinks` the rows that are massive at any layer. (rows,) each
        """
        x, places = batch.taken().detach().cpu(), batch.places
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()  # exact for bfloat16 and float16
        norms = row_norms(x) if norms is None else norms
        cell = torch.zeros(len(places), dtype=torch.int64)
        if sinks is not None:
            cell += SINK_CELLS[0] * sinks
        if frame.separate_massive:
            cell[is_massive(norms, frame)] = MASSIVE_CELLS[0]
        if frame.separate_first:
            cell += places.first
        nonfinite = torch.zeros(len(CELLS), dtype=torch.int64)
        nonfinite_by = None
        finite = torch.isfinite(norms)
        if not finite.all():
            nonfinite = torch.bincount(cell[~finite], minlength=len(CELLS))
            if places.by is not None and frame.by_groups:
                at = cell[~finite] * frame.by_groups + places.by[~finite]
                nonfinite_by = torch.bincount(at, minlength=len(CELLS) * frame.by_groups).reshape(len(CELLS), -1)
            keep = finite.nonzero().squeeze(1)
            x, norms, places, cell = x[keep], norms[keep], places.take(keep), cell[keep]
        order = torch.argsort(cell * 2**40 + places.unit, stable=True)
        if len(order) > 1 and not bool((order[1:] > order[:-1]).all()):
            x, norms, places, cell = x.index_select(0, order), norms[order], places.take(order), cell[order]
        counts = torch.bincount(cell, minlength=len(CELLS)).tolist()
        cells, start = [], 0
        for number, count in enumerate(counts):
            if count:
                cells.append((number, slice(start, start + count)))
            start += count
        kept = None if frame.kept is None else frame.kept.has_vector(places.unit, places.unit_hash)
        centre = frame.centre.to(x.dtype)
        return cls(x, norms, places, tuple(cells), nonfinite, centre, kept, nonfinite_by, batch.attention)


def is_massive(norms: Tensor, frame: Frame) -> Tensor:
    """Return which rows are massive; a norm that is not finite is not. (rows,) -> (rows,)"""
    return torch.isfinite(norms) & (norms > frame.massive_above)


def row_norms(x: Tensor) -> Tensor:
    """Return |x| of each row, NaN or infinite if x is; 0 if 1/|x| would overflow. (rows, dim) -> (rows,)"""
    norms: Tensor = torch.linalg.vector_norm(x, dim=1).double()
    odd = (~((norms > SHORT) & (norms < LONG))).nonzero().squeeze(1)
    if len(odd):  # their squares may have underflowed or overflowed: repeat in float64
        exact = torch.linalg.vector_norm(x[odd], dim=1, dtype=torch.float64)
        norms[odd] = torch.where(exact < torch.finfo(x.dtype).tiny, 0.0, exact)
    return norms
