"""Stretches: runs of windows that follow one another in the corpus, some of which are chosen by hash."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.hashing import mix
from theodolite.sources.places import window_key
from theodolite.sources.text.source import TextBatch, TextSource
from theodolite.surveys.listener import Listener
from theodolite.surveys.reopening import Reopened

SALT = 0x7374726574636873  # keeps the choice independent of the rows' keys
INTERRUPTED = "Interrupted; no batches were written."

WindowId = tuple[int, int]
"""A document's number, and the window's in it."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Windows in corpus order; `number` counts the stretches of the whole corpus from 0."""

    number: int
    windows: tuple[WindowId, ...]
    positions: int

    @property
    def first_document(self) -> int:
        """Number of the document in which it begins."""
        return self.windows[0][0]

    @property
    def documents(self) -> int:
        """How many documents it has a part of."""
        return len({document for document, _ in self.windows})


class Chosen(NamedTuple):
    """The stretches that were chosen, in corpus order, and what the corpus holds in all."""

    stretches: list[Stretch]
    of: int
    positions: int


class Size(NamedTuple):
    """How many positions of a window count; in a model of two stacks the fewer of both."""

    window: WindowId
    positions: int
    others: int  # than the first


def choose_stretches(
    reopened: Reopened, count: int, least: int, *, without_first: bool = True, listener: Listener | None = None
) -> Chosen:
    """Cut the whole corpus into stretches of at least `least` positions and return the `count` of smallest hash.

    `without_first` does not count the first position of a window, so that a stretch has enough without. What is
    left over at the end of the corpus is in no stretch. Tokenizes everything, runs nothing; memory is that of a
    shard.
    """
    tally = Tally()
    every = _stretches(reopened, least, tally, without_first=without_first, listener=listener or Listener())
    salt = reopened.source.corpus_key
    found = heapq.nsmallest(count, every, key=lambda stretch: int(mix(SALT, salt, *stretch.windows[0])))
    return Chosen(sorted(found, key=lambda stretch: stretch.number), tally.stretches, tally.positions)


@dataclass(slots=True)
class Tally:
    """What was met so far."""

    stretches: int = 0
    positions: int = 0


def _stretches(
    reopened: Reopened, least: int, tally: Tally, *, without_first: bool, listener: Listener
) -> Iterator[Stretch]:
    held: list[Size] = []
    shards = sorted(reopened.shards, key=lambda shard: shard.start)
    stop = counted = 0
    for shard, documents in zip(shards, reopened.documents(), strict=True):
        if shard.start != stop:
            held, counted = [], 0  # documents of another part of the corpus lie between
        stop = shard.stop
        if listener.stop():
            raise TheodoliteError(INTERRUPTED)
        for size in sizes(reopened.source, documents):
            held.append(size)
            tally.positions += size.positions
            counted += size.others if without_first else size.positions
            if counted >= least:
                windows = tuple(one.window for one in held)
                yield Stretch(tally.stretches, windows, sum(one.positions for one in held))
                tally.stretches += 1
                held, counted = [], 0


def sizes(source: TextSource, documents: Sequence[tuple[int, str]]) -> list[Size]:
    """Return the size of every window of these documents, in their order."""
    found = [size for batch in source.prepare(documents) for size in _of_batch(batch)]
    place = {number: at for at, (number, _) in enumerate(documents)}
    return sorted(found, key=lambda size: (place[size.window[0]], size.window[1]))


def _of_batch(batch: TextBatch) -> Iterator[Size]:
    sides = [batch] if batch.decoder is None else [batch, batch.decoder]
    document, number = batch.names.T
    keys = window_key(document, number).astype(np.int64)
    positions = np.min([_count(side.places.window.numpy(), keys) for side in sides], axis=0)
    others = np.min([_count(side.places.window[~side.places.first].numpy(), keys) for side in sides], axis=0)
    for window, all_of_it, rest in zip(batch.windows, positions.tolist(), others.tolist(), strict=True):
        yield Size(window, all_of_it, rest)


def _count(rows: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows have each of the keys."""
    ordered = np.sort(rows)
    return np.searchsorted(ordered, keys, side="right") - np.searchsorted(ordered, keys, side="left")
