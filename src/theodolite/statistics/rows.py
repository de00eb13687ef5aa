"""Rows: one layer's batch made ready once, for every statistic to read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.cells import CELLS
from theodolite.statistics.frame import Frame

SHORT, LONG = 1e-12, 1e15
"""Norms between which float32 can square a vector and sum the squares of a batch; others are told in float64."""


@dataclass(frozen=True)
class Rows:
    """The finite rows of a batch, sorted by cell and then by unit.

    Sorting lets every cell be a slice (a view, not a copy) and gives the unit tables runs of equal rows.
    """

    x: Tensor  # (rows, dim) float32, or float64 if the states came so
    norms: Tensor  # (rows,) float64; a row's norm does not depend on which rows came with it
    places: Places
    cells: tuple[tuple[int, slice], ...]  # (cell, its rows), cells without rows left out
    nonfinite: Tensor  # (cells,) int64, rows left out because a coordinate, or the norm, was NaN or infinite
    centre: Tensor  # (dim,)

    @cached_property
    def centred(self) -> Tensor:
        """x - c in x's own precision, or float64 where float32 squares might overflow. (rows, dim)"""
        wide = bool((self.norms > LONG).any())
        return self.x.double() - self.centre if wide else self.x - self.centre

    @cached_property
    def inverse_norms(self) -> Tensor:
        """1/|x| in x's precision, and 0 for a zero vector, which has no direction. (rows,)"""
        return torch.where(self.norms > 0, 1 / self.norms, 0.0).to(self.x.dtype)

    @classmethod
    def of(cls, batch: Batch, frame: Frame) -> Rows:
        """Sort a batch into cells; O(rows x dim), and no copy where the source had sorted it already."""
        x, places = batch.taken().detach().cpu(), batch.places
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()  # exact for bfloat16 and float16
        norms = _norms(x)
        nonfinite = torch.zeros(len(CELLS), dtype=torch.int64)
        finite = torch.isfinite(norms)
        if not finite.all():
            first = places.first & frame.apart_first
            nonfinite[0], nonfinite[1] = (~finite & ~first).sum(), (~finite & first).sum()
            keep = finite.nonzero().squeeze(1)
            x, norms, places = x[keep], norms[keep], places.take(keep)
        cell = torch.zeros(len(places), dtype=torch.int64)
        if frame.apart_first:
            cell += places.first
        if frame.apart_massive:
            cell += 2 * (norms > frame.massive_above)
        order = torch.argsort(cell * 2**40 + places.unit, stable=True)
        if len(order) > 1 and not bool((order[1:] > order[:-1]).all()):
            x, norms, places, cell = x.index_select(0, order), norms[order], places.take(order), cell[order]
        counts = torch.bincount(cell, minlength=len(CELLS)).tolist()
        cells, start = [], 0
        for number, count in enumerate(counts):
            if count:
                cells.append((number, slice(start, start + count)))
            start += count
        return cls(x, norms, places, tuple(cells), nonfinite, frame.centre.to(x.dtype))


def _norms(x: Tensor) -> Tensor:
    """Return |x| of each row, NaN or infinite where x is; 0 where 1/|x| would overflow. (rows, dim) -> (rows,)"""
    norms: Tensor = torch.linalg.vector_norm(x, dim=1).double()
    odd = (~((norms > SHORT) & (norms < LONG))).nonzero().squeeze(1)
    if len(odd):  # the squares may have underflowed or overflowed where x did not: ask again in float64
        again = torch.linalg.vector_norm(x[odd], dim=1, dtype=torch.float64)
        norms[odd] = torch.where(again < torch.finfo(x.dtype).tiny, 0.0, again)
    return norms
