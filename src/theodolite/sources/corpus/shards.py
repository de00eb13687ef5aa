"""Shards: runs of kept documents that travel, are surveyed and are merged as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.corpus.corpus import Corpus
from theodolite.sources.corpus.filters import Tally


@dataclass(frozen=True, slots=True)
class Shard:
    """The kept documents from the start-th up to, not including, the stop-th, counted from 0."""

    index: int
    start: int
    stop: int


class ShardCutter:
    """Cuts shards from the lengths of documents alone: a shard closes once it holds `shard_chars` characters.

    >>> cutter = ShardCutter(5)
    >>> for characters in (3, 2, 9, 1): cutter.add(characters)
    >>> [(shard.start, shard.stop) for shard in cutter.finish()]
    [(0, 2), (2, 3), (3, 4)]
    """

    def __init__(self, shard_chars: int) -> None:
        if shard_chars < 1:
            raise ValueError(f"shard_chars must be at least 1, but {shard_chars} came")
        self._wanted = shard_chars
        self._held = 0
        self._start = 0
        self._seen = 0
        self._shards: list[Shard] = []

    def add(self, characters: int) -> None:
        """Take in the next document."""
        self._seen += 1
        self._held += characters
        if self._held >= self._wanted:
            self._close()

    def add_all(self, characters: NDArray[np.int64]) -> None:
        """Take in documents of so many characters each. (documents,)"""
        ends = np.cumsum(characters)
        taken = before = 0  # documents, and their characters
        while (last := int(np.searchsorted(ends, before + self._wanted - self._held))) < len(ends):
            self._seen += last + 1 - taken
            taken, before = last + 1, int(ends[last])
            self._close()
        self._seen += len(ends) - taken
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
    """Yield each wanted shard with its (document number, text) pairs, by rising start, in one reading pass.

    Reading ends with the last wanted shard. Memory: one shard.
    """
    wanted = sorted(shards, key=lambda shard: shard.start)
    for before, after in pairwise(wanted):
        if after.start < before.stop:
            raise ValueError(f"shards must not overlap, but {before} and {after} came")
    if not wanted:
        return
    blocks = corpus.blocks(Tally())
    rest, passed = list[tuple[int, str]](), 0  # what is left of the block under way, and the documents before that
    for shard in wanted:
        held: list[tuple[int, str]] = []
        while passed < shard.stop:
            if not rest:
                block = next(blocks, None)
                if block is None:
                    break
                rest = list(zip(block.numbers.tolist(), block.texts, strict=True))
            now = rest[: shard.stop - passed]
            held += now[max(shard.start - passed, 0) :]
            rest, passed = rest[len(now) :], passed + len(now)
        if len(held) != shard.stop - shard.start:
            raise InputError(
                f"CORPUS '{corpus.name}' now keeps fewer than {shard.stop:,} documents, so it has changed since "
                "it was scanned; bring it back as it was, or begin a new survey."
            )
        yield shard, held
