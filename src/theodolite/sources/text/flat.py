"""Flat windows: those of many documents as a few arrays, with no object for any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Flat:
    """Windows that stand one after the other."""

    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    lengths: NDArray[np.int64]  # (windows,)
    document: NDArray[np.int64]  # (windows,) the number of each one's document
    number: NDArray[np.int64]  # (windows,) its own in that

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Return where each window ends among the tokens. (windows,)"""
        return np.cumsum(self.lengths)

    def taken(self, which: NDArray[np.int64]) -> Flat:
        """Return these windows, in this order."""
        lengths = self.lengths[which]
        ends = np.cumsum(lengths)
        # A window's tokens move together: by how much is told once for each.
        moved = np.repeat((self.ends - self.lengths)[which] - (ends - lengths), lengths)
        tokens = np.arange(len(moved)) + moved
        return Flat(self.ids[tokens], self.special[tokens], lengths, self.document[which], self.number[which])

    def parts(self, bounds: list[tuple[int, int]]) -> list[Flat]:
        """Return the windows from start to stop for each pair of them, as views."""
        edges = np.append(0, self.ends).tolist()
        made = []
        for start, stop in bounds:
            tokens, windows = slice(edges[start], edges[stop]), slice(start, stop)
            of_windows = (self.lengths[windows], self.document[windows], self.number[windows])
            made.append(Flat(self.ids[tokens], self.special[tokens], *of_windows))
        return made

    @property
    def named(self) -> NDArray[np.int64]:
        """The document and the number of each window. (windows, 2)"""
        return np.stack([self.document, self.number], axis=1)

    def names(self) -> tuple[tuple[int, int], ...]:
        """Return the document and the number of each window."""
        return tuple(zip(self.document.tolist(), self.number.tolist(), strict=True))
