"""Pieces: rows of one key side by side, cut into stretches short enough to share the work out evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.statistics.resident.transfer import sent

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Runs of rows with one key, in pieces of a bounded length; a unit in every second row would else be one task.

    Runs of one piece are written where they belong at once; the pieces of longer runs have a slot each and are
    added up in their order, so that the sums do not depend on who was done first.
    """

    keys: Ints  # (runs,) on the processor
    slots: int
    lengths: Tensor  # (runs,) int64
    start: Tensor  # (pieces,) int32
    length: Tensor  # (pieces,) int32
    run: Tensor  # (pieces,) int32
    slot: Tensor  # (pieces,) int32, -1 where the run has one piece
    long_run: Tensor  # (long runs,) int32
    long_slot: Tensor  # (long runs,) int32, its first slot
    long_pieces: Tensor  # (long runs,) int32

    @property
    def runs(self) -> int:
        """How many keys there are."""
        return len(self.keys)

    @classmethod
    def of(cls, keys: Ints, longest: int, device: torch.device, offset: int = 0) -> Pieces:
        """Cut rows whose sorted keys are given into pieces of at most `longest` rows; rows count from `offset`."""
        starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
        lengths = np.diff(starts, append=len(keys))
        pieces = -(-lengths // longest)
        run = np.repeat(np.arange(len(starts)), pieces)
        number = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # of the piece in its run
        start = starts[run] + number * longest
        length = np.minimum(lengths[run] - number * longest, longest)
        is_long = pieces > 1
        slot = np.where(is_long[run], np.cumsum(is_long[run]) - 1, -1)
        long_pieces = pieces[is_long]
        # One transfer for all: many small ones cost more than the kernels they feed.
        whole = (start + offset, length, run, slot, is_long.nonzero()[0], np.cumsum(long_pieces) - long_pieces)
        fields = sent(np.concatenate([*whole, long_pieces, lengths]).astype(np.int32), device)
        sizes = [*map(len, whole), len(long_pieces), len(lengths)]
        *parts, counts = torch.split(fields, sizes)
        return cls(keys[starts], int(long_pieces.sum()), counts.long(), *parts)
