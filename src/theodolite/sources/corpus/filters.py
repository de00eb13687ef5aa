"""Which documents are kept: by sample, by words, by limit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from theodolite.hashing import mix
from theodolite.sources.corpus.options import CorpusOptions

_BLOCK = 4_096


class NumberHashes:
    """Hashes of (parts..., number) for numbers that mostly rise, worked out a block at a time.

    >>> NumberHashes(7)(12) == int(mix(7, 12))
    True
    """

    def __init__(self, *parts: int) -> None:
        self._parts = parts
        self._start = -1
        self._hashes: list[int] = []

    def __call__(self, number: int) -> int:
        """Return the 64-bit hash for one number."""
        start = number - number % _BLOCK
        if start != self._start:
            self._start = start
            self._hashes = mix(*self._parts, np.arange(start, start + _BLOCK, dtype=np.uint64)).tolist()
        return self._hashes[number - start]


@dataclass(slots=True)
class Tally:
    """How many documents were read, and how many each filter removed."""

    read: int = 0
    removed: dict[str, int] = field(default_factory=dict)

    def remove(self, option: str) -> None:
        """Count one document that an option removed."""
        self.removed[option] = self.removed.get(option, 0) + 1


def keep(documents: Iterable[str], options: CorpusOptions, tally: Tally) -> Iterator[tuple[int, str]]:
    """Yield (document number, text) of the documents that the options keep, counting the others in the tally.

    Except for the limit, whether a document is kept depends on nothing but its number and its text.
    """
    removed_by = _remover(options)
    left = options.limit
    for number, text in enumerate(documents):
        tally.read = number + 1
        if removed_by is not None and (option := removed_by(number, text)):
            tally.remove(option)
            continue
        yield number, text
        if left is not None:
            left -= 1
            if not left:
                return


class _Remover:
    """Names the option that removes a document, or gives None for one that is kept."""

    def __init__(self, options: CorpusOptions) -> None:
        self.fewest, self.below = options.min_words, options.max_words
        # A hash below fraction x 2^64 keeps a document, so that smaller samples lie within larger ones.
        self.threshold = None if options.sample is None else int(options.sample * 2**64)
        self.hash_of = NumberHashes(options.seed)

    def __call__(self, number: int, text: str) -> str | None:
        if self.threshold is not None and self.hash_of(number) >= self.threshold:
            return "--sample"
        if self.fewest is None and self.below is None:
            return None
        words = len(text.split())
        if self.fewest is not None and words < self.fewest:
            return "--min-words"
        return "--max-words" if self.below is not None and words >= self.below else None


def _remover(options: CorpusOptions) -> _Remover | None:
    bounds = (options.sample, options.min_words, options.max_words)
    return None if all(bound is None for bound in bounds) else _Remover(options)
