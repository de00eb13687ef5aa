"""The pilot's documents: a few, chosen by hash, so that no part of a corpus speaks for the whole."""

import heapq

from theodolite.sources.corpus.filters import NumberHashes

_LEAST_BUDGET = 8_192
_LARGEST_SHARE = 20  # one part in twenty: 5%


class PilotChooser:
    """Keeps the documents whose numbers have the smallest hashes, each cut to `per_document` characters.

    Memory: `most` cut documents.
    """

    def __init__(self, most: int, per_document: int) -> None:
        self._most = max(1, most)
        self._cut = per_document
        self._hash_of = NumberHashes()
        # heapq keeps the smallest on top, and the largest hash is the one to drop, hence the minus.
        self._heap: list[tuple[int, int, str]] = []

    def add(self, number: int, text: str) -> None:
        """Take in a document if its hash is among the smallest so far."""
        key = -self._hash_of(number)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (key, number, text[: self._cut]))
        elif key > self._heap[0][0]:
            heapq.heapreplace(self._heap, (key, number, text[: self._cut]))

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
