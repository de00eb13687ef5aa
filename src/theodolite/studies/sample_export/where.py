"""Where sampled vectors stand, read back from their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.hashing import mix, unmix

COLUMNS = ["document", "window", "position"]
AT_ONCE = 2**20  # hashes undone in one go, 8 MB
BANDS = (2048, 16384)
"""Positions tried where the survey does not say how long a window is."""
WINDOWS, FEW = 256, 16
"""Windows of one document that are tried, fewer if nothing at all is found; of a later one no place is told."""


class Whereabouts:
    """Document, window of it and position in that window by key; every key is looked for once.

    A key is a hash of the three, less its last bit, and every step of the hash can be undone. So each position and
    window is tried: the right one leads to a document that the corpus has, a wrong one does so once in 2^64 /
    documents. Of plain vectors the document is the row in their file, and there is no position.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.plain = facts.get("model") is None
        self.known = pd.DataFrame(columns=COLUMNS, dtype="int64")  # by key; -1 where none fits

    def __call__(self, key: NDArray[np.int64]) -> pd.DataFrame:
        """Return a row for every key, null where no place fits."""
        new = np.setdiff1d(key, self.known.index.to_numpy(dtype=np.int64))
        self.known = pd.concat([self.known, self._looked_for(new)])
        found = self.known.loc[key].reset_index(drop=True)
        told = found.astype("Int64").mask(found["document"] < 0)
        if self.plain:
            told[["window", "position"]] = pd.NA
        return told

    def _looked_for(self, key: NDArray[np.int64]) -> pd.DataFrame:
        found = np.full((len(key), len(COLUMNS)), -1, dtype=np.int64)
        for corpus in self.facts["corpus"].get("parts") or [self.facts["corpus"]]:
            for positions in _bands(self.facts["settings"], self.plain):
                left = np.flatnonzero(found[:, 0] < 0)
                found[left] = _search(key[left], corpus, positions, windows=1 if self.plain else WINDOWS)
                if (found[:, 0] < 0).all():
                    break
        return pd.DataFrame(found, index=key, columns=COLUMNS)


def _bands(settings: Mapping[str, Any], plain: bool) -> list[range]:
    if plain:
        return [range(1, 2)]  # where every vector stands that has no window
    if settings.get("max_tokens"):
        return [range(int(settings["max_tokens"]))]
    return [range(low, high) for low, high in zip((0, *BANDS), BANDS, strict=False)]


def _search(
    key: NDArray[np.int64], corpus: Mapping[str, Any], positions: range, windows: int
) -> NDArray[np.int64]:
    """Return document, window and position, or -1 three times. (keys, 3)"""
    found = np.full((len(key), len(COLUMNS)), -1, dtype=np.int64)
    step = max(1, AT_ONCE // (2 * len(positions)))
    documents = max(int(corpus.get("read") or 0), int(corpus["documents"]))
    begun = mix(int(corpus["sha256"][:16], 16))
    for start in range(0, len(key), step):
        here = np.arange(start, min(start + step, len(key)))
        whole = (key[here].astype(np.uint64)[:, None] << np.uint64(1)) | np.arange(2, dtype=np.uint64)
        before = unmix(whole[:, :, None], np.array(positions, dtype=np.uint64)).reshape(len(here), -1)
        for window in range(windows):
            document = unmix(unmix(before, window), begun)
            row, column = np.nonzero(document < documents)
            place = positions.start + column % len(positions)
            found[here[row]] = np.stack(
                [document[row, column].astype(np.int64), np.full(len(row), window), place], 1
            )
            left = np.ones(len(here), dtype=bool)
            left[row] = False
            here, before = here[left], before[left]
            if not len(here) or (window >= FEW and (found[:, 0] < 0).all()):
                break
    return found
