"""Filters: keep documents by sample, by number of words and by limit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.corpora.options import CorpusOptions
from theodolite.hashing import mix

_FIRST_NON_SPACE = 0x3001  # no white space character has this code or a higher one


def count_words(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of words of each text: len(text.split()). (texts,)

    Memory: a copy of the texts, and four bytes per character if one of them is not ASCII.

    >>> count_words(["one", "", "two\\u2003 words "]).tolist()
    [1, 0, 2]
    """
    return count_words_within("".join(texts), np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))


def count_words_within(whole: str, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what `count_words` does for concatenated texts of these lengths in characters. (texts,)

    >>> count_words_within("onetwo words", np.array([3, 9])).tolist()
    [1, 2]
    """
    ends = np.cumsum(lengths)
    space = _spaces(whole)
    begins = ~space
    begins[1:] &= space[:-1]
    starts = np.append(0, ends[:-1])[: len(ends)]
    starts = starts[starts < len(space)]
    begins[starts] = ~space[starts]  # the previous text does not end with a space, as a rule
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), ends), prepend=0)
    return counts.astype(np.int64, copy=False)


def _spaces(text: str) -> NDArray[np.bool_]:
    """Return for every character whether it is white space."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii").translate(_is_space().tobytes()[:256]), dtype=np.bool_)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    space: NDArray[np.bool_] = _is_space()[np.minimum(codes, _FIRST_NON_SPACE)]
    return space


@cache
def _is_space() -> NDArray[np.bool_]:
    return np.array([chr(code).isspace() for code in range(_FIRST_NON_SPACE + 1)])


_BLOCK = 4_096


class NumberHashes:
    """Hashes of (parts..., number) for numbers that mostly increase, computed a block at a time.

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


class KeptDocuments(NamedTuple):
    """Consecutive documents among those kept."""

    numbers: NDArray[np.int64]  # (documents,)
    texts: list[str]


@dataclass(slots=True)
class Tally:
    """Counts of the documents read, and of those that each filter removed."""

    read: int = 0
    removed: dict[str, int] = field(default_factory=dict)

    def remove(self, option: str, count: int = 1) -> None:
        """Count documents that an option removed."""
        self.removed[option] = self.removed.get(option, 0) + count


def filter_documents(blocks: Iterable[list[str]], options: CorpusOptions, tally: Tally) -> Iterator[KeptDocuments]:
    """Yield the documents that the options keep, block by block, counting the others in the tally.

    Except for the limit, whether a document is kept depends on nothing but its number and its text.
    """
    remaining = options.limit
    for texts in blocks:
        removed_by = _find_removing_option(tally.read + np.arange(len(texts)), texts, options)
        kept = np.flatnonzero(removed_by < 0)
        done = remaining is not None and len(kept) >= remaining
        if done:  # documents after the last one count as not read
            kept = kept[:remaining]
            removed_by = removed_by[: kept[-1] + 1]
        for number, option in enumerate(_OPTIONS):
            if count := int((removed_by == number).sum()):
                tally.remove(option, count)
        numbers = tally.read + kept
        tally.read += len(removed_by)
        if len(kept):
            yield KeptDocuments(numbers, texts if len(kept) == len(texts) else [texts[at] for at in kept.tolist()])
        if done:
            return
        if remaining is not None:
            remaining -= len(kept)


_OPTIONS = ("--sample", "--min-words", "--max-words")  # in the order in which they are applied


def _find_removing_option(
    numbers: NDArray[np.int64], texts: list[str], options: CorpusOptions
) -> NDArray[np.int64]:
    """Return for every document which of the options removes it, -1 for one that is kept. (documents,)"""
    removed = np.full(len(texts), -1, dtype=np.int64)
    if options.min_words is not None or options.max_words is not None:
        words = count_words(texts)
        if options.max_words is not None:
            removed[words >= options.max_words] = 2
        if options.min_words is not None:
            removed[words < options.min_words] = 1
    if options.sample is not None:
        # A hash below fraction x 2^64 keeps a document, so that smaller samples are subsets of larger ones.
        threshold = int(options.sample * 2**64)
        if threshold < 2**64:
            removed[mix(options.seed, numbers) >= np.uint64(threshold)] = 0
    return removed
