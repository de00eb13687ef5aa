"""There: the sums by unit of a layer, copied to the device while its tables are made, if they fit."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.statistics.fold import LayerFold

SHARE = 0.05
"""Of the device's free memory, what one layer's sums may take: several layers are there at once, with copies."""


def sums_there(fold: LayerFold, device: str | None) -> dict[int, Tensor] | None:
    """Return the sums of every cell on the device; None where there is no device or the sums are too many."""
    if device is None:
        return None
    size = sum(table.sum.nbytes for table in fold.moments.tables)
    if device.startswith("cuda") and size > SHARE * torch.cuda.mem_get_info(device)[0]:
        return None
    return fold.moments.moved(torch.device(device))
