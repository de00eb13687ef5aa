"""The passes over a batch as Triton kernels.

The numbers are those of `plain`: sums by unit in float64 throughout, for which memory leaves time on any GPU; sums
by group in float32 within a piece and in float64 between. The states are read twice: to be measured and summed by
group; and, when it is known which rows are to be kept apart, to be summed by unit and written down.
"""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.statistics.resident.jit import triton as triton
from theodolite.statistics.resident.measuring import add_norms as add_norms
from theodolite.statistics.resident.measuring import measure_pass as measure_pass
from theodolite.statistics.resident.multiplying import add_products as add_products
from theodolite.statistics.resident.multiplying import products as products
from theodolite.statistics.resident.summing import unit_pass as unit_pass

WIDEST = 8192
TYPES = (torch.bfloat16, torch.float16, torch.float32)


def usable(states: Tensor) -> bool:
    """Say whether the kernels can be run on these states."""
    return triton is not None and states.is_cuda and states.dtype in TYPES and states.shape[1] <= WIDEST
