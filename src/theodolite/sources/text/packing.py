"""Packing: many windows of tokens made into one batch, with no step taken window by window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.batch import Places
from theodolite.hashing import mix, mix_on
from theodolite.sources.places import places
from theodolite.sources.text.flat import Flat


@dataclass(frozen=True, slots=True)
class Packed:
    """Windows padded on the right to one length, and their counted tokens in the order of the windows."""

    ids: NDArray[np.int64]  # (windows, tokens)
    mask: NDArray[np.int64]  # (windows, tokens)
    rows: NDArray[np.int64]  # (counted tokens,) places in the flattened (windows x tokens)
    places: Places


@dataclass(frozen=True, slots=True)
class Laid:
    """Windows laid end to end, and their counted tokens in the same order."""

    ids: NDArray[np.int64]  # (1, tokens)
    position: NDArray[np.int64]  # (1, tokens), counted in each window
    starts: NDArray[np.int32]  # (windows + 1,)
    rows: NDArray[np.int64]  # (counted tokens,)
    places: Places


@dataclass(frozen=True, slots=True)
class Packing:
    """How a source packs: its codes of ids, the id that pads, and what counts."""

    codes: NDArray[np.int64]  # (vocabulary,)
    pad: int
    corpus_key: int
    causal: bool
    drop_special: bool = False

    def padded(self, windows: Flat) -> Packed:
        """Pad windows, each of them with a token."""
        longest, count = int(windows.lengths.max()), len(windows)
        held = np.arange(longest) < windows.lengths[:, None]
        ids = np.full((count, longest), self.pad, dtype=np.int64)
        ids[held] = windows.ids
        rows = np.flatnonzero(held)
        kept, _, where = self._places(windows)
        return Packed(ids, held.astype(np.int64), rows[kept], where)

    def end_to_end(self, windows: Flat) -> Laid:
        """Lay windows, each of them with a token, end to end."""
        kept, position, where = self._places(windows)
        starts, rows = np.append(0, windows.ends), np.arange(len(windows.ids))
        return Laid(windows.ids[None], position[None], starts.astype(np.int32), rows[kept], where)

    def _places(self, windows: Flat) -> tuple[NDArray[np.bool_] | slice, NDArray[np.int64], Places]:
        """Return which tokens count, every token's position in its window, and where those that count stand."""
        ids, of = windows.ids, np.repeat(np.arange(len(windows)), windows.lengths)
        position = np.arange(len(ids)) - (windows.ends - windows.lengths)[of]
        context = self._contexts(ids, position, windows.lengths, of)
        kept = ~windows.special if self.drop_special else slice(None)
        where = places(
            self.corpus_key,
            document=windows.document,
            window=windows.number,
            position=position[kept],
            unit=self.codes[ids[kept]],
            context=context[kept],
            of=of[kept],
        )
        return kept, position, where

    def _contexts(
        self,
        ids: NDArray[np.int64],
        position: NDArray[np.int64],
        lengths: NDArray[np.int64],
        of: NDArray[np.int64],
    ) -> NDArray[np.uint64]:
        """Return a hash of what the model saw for each token: all ids up to it, or its whole window and its place.

        Sums of hashes wrap around, so that those of one window are a difference of those of all.
        """
        sums = np.cumsum(mix(ids, position))
        whole = sums[np.cumsum(lengths) - 1]
        before = np.append(np.uint64(0), whole[:-1])
        if self.causal:
            return sums - before[of]
        return mix_on(mix(whole - before)[of], position)
