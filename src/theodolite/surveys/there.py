"""There: the sums by unit of a layer on the device while its tables are made, if they fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from theodolite.statistics.away import Away
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.resident.tables import free_on

SHARE = 0.05
"""Of the device's free memory, what one layer's sums may take: several layers are there at once, with copies."""


Cells = dict[int, Tensor]
"""Sums by cell. (units, dim) each"""


def left_there(folds: Mapping[int, LayerFold]) -> dict[int, Cells]:
    """Return what is away on a device by layer, to be measured there though it may be brought here meanwhile."""
    left: dict[int, Cells] = {}
    for index, fold in folds.items():
        for cell, table in enumerate(fold.moments.tables):
            if isinstance(held := table.held, Away) and (there := held.there) is not None:
                left.setdefault(index, {})[cell] = there
    return left


def sums_there(fold: LayerFold, device: str | None, left: Cells | None = None) -> Cells | None:
    """Return the sums of every cell on the device; None where there is no device or the sums are too many.

    Those that were `left` there are taken, the others copied.
    """
    if device is None:
        return None
    size = sum(table.held.nbytes for table in fold.moments.tables)
    if device.startswith("cuda") and size > SHARE * free_on(device)[0]:
        return None
    return fold.moments.moved(torch.device(device), left or {})


@contextmanager
def beside_others(device: str | None) -> Iterator[None]:
    """Queue what this thread wants of a GPU beside what others want of it, not behind that."""
    if device is None or not device.startswith("cuda"):
        yield
        return
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()  # what it read may now be let go
