"""Vectors on their own as the statistics take them: batches of rows that belong to one unit."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows

BATCH = 4096


def rows_of(x: Tensor, frame: Frame) -> Iterator[Rows]:
    """Yield the vectors a batch at a time, made ready as a survey makes them. (vectors, dim)"""
    for part in x.split(BATCH):
        zeros = torch.zeros(len(part), dtype=torch.int64)
        yield Rows.of(Batch(0, part, Places(zeros, zeros, zeros.bool(), zeros, zeros, zeros)), frame)
