"""Packing: many windows of tokens made into one batch, with no step taken window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.batch import Places
from theodolite.hashing import mix
from theodolite.sources.places import places
from theodolite.sources.text.windows import Window


@dataclass(frozen=True, slots=True)
class Packed:
    """Windows padded on the right to one length, and their counted tokens in the order of the windows."""

    ids: NDArray[np.int64]  # (windows, tokens)
    mask: NDArray[np.int64]  # (windows, tokens)
    rows: NDArray[np.int64]  # (counted tokens,) places in the flattened (windows x tokens)
    places: Places


@dataclass(frozen=True, slots=True)
class Packing:
    """How a source packs: its codes of ids, the id that pads, and what counts."""

    codes: NDArray[np.int64]  # (vocabulary,)
    pad: int
    corpus_key: int
    causal: bool
    drop_special: bool = False

    def windows(self, windows: Sequence[Window]) -> Packed:
        """Pack windows, at least one of them with a token."""
        lengths = np.array([len(window.ids) for window in windows], dtype=np.int64)
        special = np.concatenate([window.special for window in windows]) if self.drop_special else None
        return self.flat(
            np.concatenate([window.ids for window in windows]),
            lengths,
            document=np.array([window.document for window in windows], dtype=np.int64),
            number=np.array([window.number for window in windows], dtype=np.int64),
            special=special,
        )

    def flat(
        self,
        ids: NDArray[np.int64],
        lengths: NDArray[np.int64],
        *,
        document: NDArray[np.int64],
        number: NDArray[np.int64],
        special: NDArray[np.bool_] | None = None,
    ) -> Packed:
        """Pack ids (tokens,) that stand window after window; lengths, document and number are (windows,)."""
        longest, count = int(lengths.max()), len(lengths)
        starts = np.cumsum(lengths) - lengths
        of = np.repeat(np.arange(count), lengths)
        position = np.arange(len(ids)) - starts[of]
        rows = of * longest + position
        padded = np.full(count * longest, self.pad, dtype=np.int64)
        mask = np.zeros(count * longest, dtype=np.int64)
        padded[rows] = ids
        mask[rows] = 1
        context = self._contexts(ids, position, starts, of)
        if special is not None:
            kept = ~special
            ids, of, position, rows, context = ids[kept], of[kept], position[kept], rows[kept], context[kept]
        where = places(
            self.corpus_key,
            document=document[of].astype(np.uint64),
            window=number[of].astype(np.uint64),
            position=position,
            unit=self.codes[ids],
            context=context,
        )
        return Packed(padded.reshape(count, longest), mask.reshape(count, longest), rows, where)

    def _contexts(
        self,
        ids: NDArray[np.int64],
        position: NDArray[np.int64],
        starts: NDArray[np.int64],
        of: NDArray[np.int64],
    ) -> NDArray[np.uint64]:
        """Return a hash of what the model saw for each token: all ids up to it, or its whole window and its place.

        Sums of hashes wrap around, so that those of one window are a difference of those of all.
        """
        sums = np.cumsum(mix(ids, position))
        before = np.where(starts > 0, sums[starts - 1], np.uint64(0))
        left = sums - before[of]
        if self.causal:
            return left
        ends = np.append(starts[1:], len(ids)) - 1
        return mix(left[ends][of], position)
