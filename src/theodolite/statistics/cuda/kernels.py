"""The functions of `reference` as Triton kernels.

Sums by unit are in float64, which costs no time, since memory is the limit on any GPU. Sums by group are in
float32 within a piece and in float64 between pieces. The states are read twice: to compute norms, flags and sums
by group, and to copy them where they are held; and for sums by unit. The rows to be multiplied are written then,
or, if they are held, overwritten where they differ.
"""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.optional_triton import can_launch
from theodolite.statistics.cuda.gram_kernels import add_products as add_products
from theodolite.statistics.cuda.gram_kernels import products as products
from theodolite.statistics.cuda.measure_kernels import add_norms as add_norms
from theodolite.statistics.cuda.measure_kernels import measure as measure
from theodolite.statistics.cuda.measure_kernels import sum_groups as sum_groups
from theodolite.statistics.cuda.unit_kernels import add_units as add_units

WIDEST = 8192
TYPES = (torch.bfloat16, torch.float16, torch.float32)


def is_supported(states: Tensor) -> bool:
    """Return whether the kernels support these states."""
    return can_launch(states) and states.dtype in TYPES and states.shape[1] <= WIDEST
