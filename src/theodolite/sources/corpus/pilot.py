"""The pilot's documents: a few, chosen by hash, so that no part of a corpus speaks for the whole."""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.hashing import mix

_LEAST_BUDGET = 8_192
_LARGEST_SHARE = 20  # one part in twenty: 5%


class PilotChooser:
    """Keeps the documents whose numbers have the smallest hashes, each cut to `per_document` characters.

    Memory: `most` cut documents.
    """

    def __init__(self, most: int, per_document: int) -> None:
        self._most = max(1, most)
        self._cut = per_document
        # heapq keeps the smallest on top, and the largest hash is the one to drop, hence the minus.
        self._heap: list[tuple[int, int, str]] = []

    def add(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> None:
        """Take in documents whose hashes are among the smallest so far."""
        hashes = mix(numbers)
        full = len(self._heap) >= self._most
        near = np.flatnonzero(hashes < np.uint64(-self._heap[0][0])) if full else np.arange(len(hashes))
        for place in near.tolist():
            held = (-int(hashes[place]), int(numbers[place]), texts[place][: self._cut])
            if len(self._heap) < self._most:
                heapq.heappush(self._heap, held)
            elif held[0] > self._heap[0][0]:
                heapq.heapreplace(self._heap, held)

    def choose(self, budget: int) -> tuple[tuple[int, str], ...]:
        """Return, by number, the documents of smallest hash up to where the next would pass the budget.

        The first is taken whatever its length.
        """
        chosen, held = list[tuple[int, str]](), 0
        for _, number, text in sorted(self._heap, reverse=True):
            held += len(text)
            if chosen and held > budget:
                break
            chosen.append((number, text))
        return tuple(sorted(chosen))


def pilot_budget(characters: int, most: int) -> int:
    """Return how many characters a pilot may read: 5% of a corpus, within 8,192 and `most`.

    >>> [pilot_budget(characters, 32_768) for characters in (1_000, 200_000, 10**9)]
    [8192, 10000, 32768]
    """
    return min(most, max(_LEAST_BUDGET, characters // _LARGEST_SHARE))
