"""Shards: runs of consecutive documents that are sent to a worker, surveyed and merged as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from theodolite.corpora.filters import Tally
from theodolite.corpora.text_corpus import Corpus
from theodolite.errors import InputError


@dataclass(frozen=True, slots=True)
class Shard:
    """The kept documents from the start-th up to, not including, the stop-th, counted from 0."""

    index: int
    start: int
    stop: int


class ShardCutter:
    """Cuts shards by the lengths of documents: a shard ends once it holds `shard_chars` characters.

    >>> cutter = ShardCutter(5)
    >>> for characters in (3, 2, 9, 1): cutter.add(characters)
    >>> [(shard.start, shard.stop) for shard in cutter.finish()]
    [(0, 2), (2, 3), (3, 4)]
    """

    def __init__(self, shard_chars: int) -> None:
        if shard_chars < 1:
            raise ValueError(f"shard_chars must be at least 1 (got {shard_chars})")
        self._shard_chars = shard_chars
        self._held = 0
        self._start = 0
        self._seen = 0
        self._shards: list[Shard] = []

    def add(self, characters: int) -> None:
        """Add the next document."""
        self._seen += 1
        self._held += characters
        if self._held >= self._shard_chars:
            self._close()

    def add_all(self, characters: NDArray[np.int64]) -> None:
        """Add documents of these numbers of characters. (documents,)"""
        ends = np.cumsum(characters)
        added = before = 0  # documents, and their characters
        while (last := int(np.searchsorted(ends, before + self._shard_chars - self._held))) < len(ends):
            self._seen += last + 1 - added
            added, before = last + 1, int(ends[last])
            self._close()
        self._seen += len(ends) - added
        self._held += (int(ends[-1]) if len(ends) else 0) - before

    def finish(self) -> tuple[Shard, ...]:
        """Return all shards, the last of which may hold less than the others."""
        if self._seen > self._start:
            self._close()
        return tuple(self._shards)

    def _close(self) -> None:
        self._shards.append(Shard(len(self._shards), self._start, self._seen))
        self._start, self._held = self._seen, 0


def shard_documents(corpus: Corpus, shards: Sequence[Shard]) -> Iterator[tuple[Shard, list[tuple[int, str]]]]:
    """Yield each of these shards with its (document number, text) pairs, sorted by start, in one pass.

    Reading ends with the last of the shards. Memory: one shard.
    """
    ordered = sorted(shards, key=lambda shard: shard.start)
    for before, after in pairwise(ordered):
        if after.start < before.stop:
            raise ValueError(f"shards must not overlap (got {before} and {after})")
    if not ordered:
        return
    blocks = corpus.blocks(Tally())
    unused, passed = list[tuple[int, str]](), 0  # documents left of the current block; documents before them
    for shard in ordered:
        held: list[tuple[int, str]] = []
        while passed < shard.stop:
            if not unused:
                block = next(blocks, None)
                if block is None:
                    break
                unused = list(zip(block.numbers.tolist(), block.texts, strict=True))
            now = unused[: shard.stop - passed]
            held += now[max(shard.start - passed, 0) :]
            unused, passed = unused[len(now) :], passed + len(now)
        if len(held) != shard.stop - shard.start:
            raise InputError(
                f"CORPUS '{corpus.name}' now keeps fewer than {shard.stop:,} documents, so it has changed since "
                "it was scanned; restore it, or start a new survey."
            )
        yield shard, held
