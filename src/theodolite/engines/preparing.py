"""Shards made ready to run, ahead of the fold that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from theodolite.engines.ahead import Ahead, ahead_in_order
from theodolite.engines.forked import Copies, forked
from theodolite.sources.source import Source
from theodolite.sources.text.encoding import share_among

Documents = list[tuple[int, Any]]
WORKERS = 2
"""Shards tokenized at a time where a GPU waits and no copies of this process can help: while Rust encodes one,
Python packs the other."""


def waited_for(source: Source) -> bool:
    """Say whether a GPU would wait for text: it is then prepared long before its turn, and out of order.

    Words get their codes in the order in which they are met, so there one shard comes after the other.
    """
    return bool(getattr(source, "resident", False)) and not source.units.open


class Preparing:
    """(index, batches) of (index, documents) pairs, in order.

    Where a GPU waits for them they are begun at once, by copies of this process, and one more of them than there
    are copies is ready or under way at a time; `most` is how many there are, if that is known. Elsewhere each is
    prepared when it is asked for. Close it, whatever happens: copies would stay.
    """

    def __init__(self, source: Source, shards: Iterable[tuple[int, Documents]], most: int | None = None) -> None:
        self._copies: Copies[Documents, Sequence[Any]] | None = None
        self._begun: Ahead[tuple[int, Sequence[Any]]] | None = None
        self._shards: Iterator[tuple[int, Sequence[Any]]]
        if not waited_for(source):
            self._shards = map(_each(source.prepare), shards)
            return
        workers = WORKERS
        prepare: Callable[[Documents], Sequence[Any]] = source.prepare
        self._copies = forked(prepare, most, share_among)
        if self._copies is not None:
            workers, prepare = self._copies.count, self._copies
        self._begun = Ahead(self._all(ahead_in_order(_each(prepare), shards, workers)), depth=1)
        self._shards = self._begun

    def _all(self, shards: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield all, and let the copies go when the last is made: to end takes them a while."""
        yield from shards
        if self._copies is not None:
            self._copies.dismiss()

    def __iter__(self) -> Iterator[tuple[int, Sequence[Any]]]:
        return self._shards

    def close(self) -> None:
        """Stop at once, and leave no process and no thread behind."""
        if self._copies is not None:
            self._copies.close()
        if self._begun is not None:
            self._begun.close()


def _each(
    prepare: Callable[[Documents], Sequence[Any]],
) -> Callable[[tuple[int, Documents]], tuple[int, Sequence[Any]]]:
    return lambda shard: (shard[0], prepare(shard[1]))
