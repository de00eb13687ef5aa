"""Arrays as tensors, however they lie in memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_tensor(rows: NDArray[np.floating] | Tensor) -> Tensor:
    """Return a tensor as it is, an array as a copy: PyTorch takes none that runs backwards or is read-only."""
    return rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows, order="C"))
