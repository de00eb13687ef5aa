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

    def windows(self, windows: Flat) -> Packed:
        """Pack windows, each of them with a token."""
        return self.flat(
            windows.ids,
            windows.lengths,
            document=windows.document,
            number=windows.number,
            special=windows.special if self.drop_special else None,
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
        held = np.arange(longest) < lengths[:, None]
        padded = np.full((count, longest), self.pad, dtype=np.int64)
        padded[held] = ids
        rows = np.flatnonzero(held)
        of = np.repeat(np.arange(count), lengths)
        position = rows - (longest * np.arange(count))[of]
        kept, where = self._places(ids, position, lengths, of, document, number, special)
        return Packed(padded, held.astype(np.int64), rows if kept is None else rows[kept], where)

    def end_to_end(self, windows: Flat) -> Laid:
        """Lay windows, each of them with a token, end to end."""
        starts = np.append(0, windows.ends)
        of = np.repeat(np.arange(len(windows)), windows.lengths)
        position = np.arange(len(of)) - starts[of]
        special = windows.special if self.drop_special else None
        told = (windows.document, windows.number, special)
        kept, where = self._places(windows.ids, position, windows.lengths, of, *told)
        rows = np.arange(len(of)) if kept is None else np.flatnonzero(kept)
        return Laid(windows.ids[None], position[None], starts.astype(np.int32), rows, where)

    def _places(
        self,
        ids: NDArray[np.int64],
        position: NDArray[np.int64],
        lengths: NDArray[np.int64],
        of: NDArray[np.int64],
        document: NDArray[np.int64],
        number: NDArray[np.int64],
        special: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.bool_] | None, Places]:
        """Return which tokens count, None for all, and where those stand."""
        context = self._contexts(ids, position, lengths, of)
        kept = None if special is None else ~special
        if kept is not None:
            ids, of, position, context = ids[kept], of[kept], position[kept], context[kept]
        where = places(
            self.corpus_key,
            document=document,
            window=number,
            position=position,
            unit=self.codes[ids],
            context=context,
            of=of,
        )
        return kept, where

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
