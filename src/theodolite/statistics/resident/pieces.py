"""Pieces: rows of one key side by side, cut into stretches short enough to share the work out evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]
_SENT = ("start", "length", "run", "slot", "long_run", "long_slot", "long_pieces")


@dataclass(frozen=True)
class Pieces:
    """Runs of rows with one key, in pieces of a bounded length; a unit in every second row would else be one task.

    Runs of one piece are written where they belong at once; the pieces of longer runs have a slot each and are
    added up in their order, so that the sums do not depend on who was done first.
    """

    keys: Ints  # (runs,) on the processor, as the next
    lengths: Ints  # (runs,)
    slots: int
    start: Tensor  # (pieces,) int32, as all these
    length: Tensor  # (pieces,)
    run: Tensor  # (pieces,)
    slot: Tensor  # (pieces,) -1 where the run has one piece
    long_run: Tensor  # (long runs,)
    long_slot: Tensor  # (long runs,) its first slot
    long_pieces: Tensor  # (long runs,)

    @property
    def runs(self) -> int:
        """How many keys there are."""
        return len(self.keys)

    @classmethod
    def of(cls, keys: Ints, longest: int) -> Pieces:
        """Cut rows, of which those with one key lie side by side, into pieces of at most `longest` rows."""
        starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
        lengths = np.diff(starts, append=len(keys))
        pieces = -(-lengths // longest)
        run = np.repeat(np.arange(len(starts)), pieces)
        number = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # of the piece in its run
        length = np.minimum(lengths[run] - number * longest, longest)
        is_long = pieces > 1
        slot = np.where(is_long[run], np.cumsum(is_long[run]) - 1, -1)
        long_pieces = pieces[is_long]
        fields = (
            starts[run] + number * longest,
            length,
            run,
            slot,
            is_long.nonzero()[0],
            np.cumsum(long_pieces) - long_pieces,
            long_pieces,
        )
        here = (torch.from_numpy(field.astype(np.int32)) for field in fields)
        return cls(keys[starts], lengths, int(long_pieces.sum()), *here)

    def tensors(self) -> tuple[Tensor, ...]:
        """Return what a device needs."""
        return tuple(getattr(self, name) for name in _SENT)

    def at(self, tensors: Sequence[Tensor]) -> Pieces:
        """Return the same with these tensors, which are somewhere else."""
        start, length, run, slot, long_run, long_slot, long_pieces = tensors
        return replace(
            self,
            start=start,
            length=length,
            run=run,
            slot=slot,
            long_run=long_run,
            long_slot=long_slot,
            long_pieces=long_pieces,
        )
