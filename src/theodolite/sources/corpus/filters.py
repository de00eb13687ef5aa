"""Which documents are kept: by sample, by words, by limit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.hashing import mix
from theodolite.sources.corpus.options import CorpusOptions
from theodolite.sources.corpus.words import word_counts

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


class Kept(NamedTuple):
    """Documents that lie one after the other among those kept."""

    numbers: NDArray[np.int64]  # (documents,)
    texts: list[str]


@dataclass(slots=True)
class Tally:
    """How many documents were read, and how many each filter removed."""

    read: int = 0
    removed: dict[str, int] = field(default_factory=dict)

    def remove(self, option: str, count: int = 1) -> None:
        """Count documents that an option removed."""
        self.removed[option] = self.removed.get(option, 0) + count


def keep(blocks: Iterable[list[str]], options: CorpusOptions, tally: Tally) -> Iterator[Kept]:
    """Yield the documents that the options keep, block by block, counting the others in the tally.

    Except for the limit, whether a document is kept depends on nothing but its number and its text.
    """
    left = options.limit
    for texts in blocks:
        removed_by = _removed_by(tally.read + np.arange(len(texts)), texts, options)
        stays = np.flatnonzero(removed_by < 0)
        done = left is not None and len(stays) >= left
        if done:  # what comes after the last one counts as not read
            stays = stays[:left]
            removed_by = removed_by[: stays[-1] + 1]
        for number, option in enumerate(_OPTIONS):
            if count := int((removed_by == number).sum()):
                tally.remove(option, count)
        numbers = tally.read + stays
        tally.read += len(removed_by)
        if len(stays):
            yield Kept(numbers, texts if len(stays) == len(texts) else [texts[at] for at in stays.tolist()])
        if done:
            return
        if left is not None:
            left -= len(stays)


_OPTIONS = ("--sample", "--min-words", "--max-words")  # in the order in which they are asked


def _removed_by(numbers: NDArray[np.int64], texts: list[str], options: CorpusOptions) -> NDArray[np.int64]:
    """Return for every document which of the options removes it, -1 for one that is kept. (documents,)"""
    removed = np.full(len(texts), -1, dtype=np.int64)
    if options.min_words is not None or options.max_words is not None:
        words = word_counts(texts)
        if options.max_words is not None:
            removed[words >= options.max_words] = 2
        if options.min_words is not None:
            removed[words < options.min_words] = 1
    if options.sample is not None:
        # A hash below fraction x 2^64 keeps a document, so that smaller samples lie within larger ones.
        threshold = int(options.sample * 2**64)
        if threshold < 2**64:
            removed[mix(options.seed, numbers) >= np.uint64(threshold)] = 0
    return removed
