"""What the two ways of going over a batch, with kernels and without, hand each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from theodolite.pinned import sent
from theodolite.statistics.rows import LONG, SHORT

MASSIVE, NONFINITE, ODD = 1, 2, 4
"""Flags of a row: its norm is massive; is not finite; is one whose square float32 cannot hold."""


@dataclass(frozen=True)
class Measured:
    """How long the rows of a batch are, in the layout's order, and which are to be kept apart."""

    norms: Tensor  # (rows,) float64; of a flagged row, any
    flags: Tensor  # (rows,) int8


class GroupSums(NamedTuple):
    """Sums of two cells, other positions and first ones, by group and coordinate. y = x - c, u = x/|x|."""

    groups: Tensor  # (2, 20, 2, dim) float64, of y and of u
    squares: Tensor  # (2, 20) float64, of |y|^2
    cells: Tensor  # (2, 4, dim) float64, of y, u, y^2 and u^2
    n: Tensor  # (2, 20, 2) int64, rows summed, and rows with a direction


def limits_of(massive: float, dtype: torch.dtype, device: torch.device, *, mark_odd: bool) -> Tensor:
    """Return norms: above which a row is massive, below which it is 0, and between which it is not odd."""
    outer = (SHORT, LONG) if mark_odd else (-1.0, math.inf)
    # 1/|x| overflows below the least normal number; half precision is summed in float32, which holds all of it.
    least = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).tiny
    return sent(torch.tensor([massive, least, *outer], dtype=torch.float64), device)
