"""Contiguous chunks of the corpus, some of them chosen by hash, and their states from a second pass."""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch
from theodolite.engines.progress import Listener, Progress
from theodolite.errors import TheodoliteError
from theodolite.hashing import mix
from theodolite.models.layers import Layer
from theodolite.sources.rows import hash_window
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource
from theodolite.state.pilot import Pilot
from theodolite.surveys.reopen import Reopened
from theodolite.surveys.token_sets import SinkRecorder
from theodolite.text import format_bytes

SALT = 0x7374726574636873  # keeps the choice independent of the rows' keys
INTERRUPTED = "Interrupted. No batches were written."

WindowId = tuple[int, int]
"""A document's number, and the window's in it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive windows of the corpus; `number` counts the chunks of the corpus from 0."""

    number: int
    windows: tuple[WindowId, ...]
    positions: int

    @property
    def first_document(self) -> int:
        """Number of the document in which the chunk starts."""
        return self.windows[0][0]

    @property
    def documents(self) -> int:
        """Number of documents that the chunk overlaps."""
        return len({document for document, _ in self.windows})


class ChosenChunks(NamedTuple):
    """The chosen chunks in corpus order, and the number of chunks and positions of the corpus."""

    chunks: list[Chunk]
    of: int
    positions: int


class WindowSize(NamedTuple):
    """Number of positions of a window; for an encoder-decoder the smaller of both."""

    window: WindowId
    positions: int
    others: int  # without the first


def choose_chunks(
    reopened: Reopened, count: int, least: int, *, without_first: bool = True, listener: Listener | None = None
) -> ChosenChunks:
    """Cut the whole corpus into chunks of at least `least` positions and return the `count` of smallest hash.

    `without_first` does not count the first position of a window, so that a chunk has enough without. What is
    left over at the end of the corpus is in no chunk. Tokenizes everything, runs nothing; memory is that of a
    shard.
    """
    counts = ChunkCounts()
    every = _iterate_chunks(reopened, least, counts, without_first=without_first, listener=listener or Listener())
    salt = reopened.source.corpus_key
    found = heapq.nsmallest(count, every, key=lambda chunk: int(mix(SALT, salt, *chunk.windows[0])))
    return ChosenChunks(sorted(found, key=lambda chunk: chunk.number), counts.chunks, counts.positions)


@dataclass(slots=True)
class ChunkCounts:
    """Number of chunks and positions seen so far."""

    chunks: int = 0
    positions: int = 0


def _iterate_chunks(
    reopened: Reopened, least: int, counts: ChunkCounts, *, without_first: bool, listener: Listener
) -> Iterator[Chunk]:
    held: list[WindowSize] = []
    shards = sorted(reopened.shards, key=lambda shard: shard.start)
    stop = counted = 0
    for shard, documents in zip(shards, reopened.documents(), strict=True):
        if shard.start != stop:
            held, counted = [], 0  # documents of another part of the corpus are in between
        stop = shard.stop
        if listener.stop():
            raise TheodoliteError(INTERRUPTED)
        for size in window_sizes(reopened.source, documents):
            held.append(size)
            counts.positions += size.positions
            counted += size.others if without_first else size.positions
            if counted >= least:
                windows = tuple(one.window for one in held)
                yield Chunk(counts.chunks, windows, sum(one.positions for one in held))
                counts.chunks += 1
                held, counted = [], 0


def window_sizes(source: TextSource, documents: Sequence[tuple[int, str]]) -> list[WindowSize]:
    """Return the size of every window of these documents, in order."""
    found = [size for batch in source.prepare(documents) for size in _sizes_of_batch(batch)]
    place = {number: at for at, (number, _) in enumerate(documents)}
    return sorted(found, key=lambda size: (place[size.window[0]], size.window[1]))


def _sizes_of_batch(batch: TextBatch) -> Iterator[WindowSize]:
    sides = [batch] if batch.decoder is None else [batch, batch.decoder]
    document, number = batch.names.T
    keys = hash_window(document, number).astype(np.int64)
    positions = np.min([_count(side.places.window.numpy(), keys) for side in sides], axis=0)
    others = np.min([_count(side.places.window[~side.places.first].numpy(), keys) for side in sides], axis=0)
    for window, all_of_it, rest in zip(batch.windows, positions.tolist(), others.tolist(), strict=True):
        yield WindowSize(window, all_of_it, rest)


def _count(rows: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of rows with each key."""
    ordered = np.sort(rows)
    return np.searchsorted(ordered, keys, side="right") - np.searchsorted(ordered, keys, side="left")


BUDGET = 2**30
"""Bytes of states in memory at a time, unless one layer needs more."""


@dataclass(frozen=True, eq=False)
class ChunkStates:
    """The states of one layer in all chunks; NaN and infinite ones are excluded, as in the survey."""

    vectors: Tensor  # (rows, dim) float32
    key: Tensor  # (rows,) int64, hashes: their order is a shuffle
    context: Tensor  # (rows,) int64
    first: Tensor  # (rows,) bool
    chunk: Tensor  # (rows,) int64, index of the chunk
    sinks: Tensor | None = None  # (rows,) bool, massive at any layer of the survey, if they were recorded


def read_chunk_states(
    reopened: Reopened,
    chunks: Sequence[Chunk],
    *,
    layers: Collection[int] | None = None,
    pilot: Pilot | None = None,
    budget: int = BUDGET,
    listener: Listener | None = None,
) -> Iterator[tuple[Layer, ChunkStates]]:
    """Run the chunks through the model and yield the states of each of `layers`, by default of all.

    With a `pilot`, the first pass runs all layers of the source and records the positions massive at any of them.
    Memory: 4 dim bytes per position and layer, for as many layers as fit into the budget (at least one). If not
    all fit, the model runs once for every group of layers.
    """
    listener = listener or Listener()
    batches = _prepare_batches(reopened, chunks)
    rows = sum(batch.positions for of_chunk in batches for batch in of_chunk)
    every = reopened.source.layers
    groups = group_layers([layer for layer in every if layers is None or layer.index in layers], rows, budget)
    sinks = None if pilot is None else SinkRecorder(every, pilot)
    if len(groups) > 1:
        listener.say(
            f"{rows:,} positions of {sum(map(len, groups))} layers do not fit into {format_bytes(budget)}: "
            f"the model runs {len(groups)} times, for {max(map(len, groups))} layers or fewer at a time"
        )
    progress = PassProgress(rows * len(groups), listener)
    for number, group in enumerate(groups):
        held = _run(reopened, group, batches, progress, None if number else sinks)
        for layer in group:
            states = _join_parts(held.pop(layer.index))
            yield layer, states if sinks is None else replace(states, sinks=sinks.find(layer.index, states.key))


def group_layers(layers: Sequence[Layer], rows: int, budget: int) -> list[list[Layer]]:
    """Return the layers in groups whose states fit into the budget, in order."""
    groups: list[list[Layer]] = []
    left = 0
    for layer in layers:
        need = 4 * layer.dim * rows
        if not groups or need > left:
            groups.append([])
            left = budget
        groups[-1].append(layer)
        left -= need
    return groups


class PassProgress:
    """Reports progress, and stops the pass on request."""

    def __init__(self, total: int, listener: Listener) -> None:
        self._total, self._listener = total, listener
        self._done, self._seconds = 0, 0.0

    def advance(self, positions: int, seconds: float) -> None:
        """Count one more batch."""
        self._done += positions
        self._seconds += seconds
        self._listener.progress(Progress(self._done / self._total, self._done, self._seconds))
        if self._listener.stop():
            raise TheodoliteError(INTERRUPTED)


def _prepare_batches(reopened: Reopened, chunks: Sequence[Chunk]) -> list[list[TextBatch]]:
    """Return the batches of each chunk, from one pass over the corpus."""
    documents = {document for chunk in chunks for document, _ in chunk.windows}
    texts = {number: text for some in reopened.documents() for number, text in some if number in documents}
    prepared = []
    for chunk in chunks:
        held = dict.fromkeys(document for document, _ in chunk.windows)
        of_chunk = [(number, texts[number]) for number in held]
        prepared.append(reopened.source.prepare(of_chunk, only=set(chunk.windows)))
    return prepared


Parts = list[tuple[Batch, int]]


def _run(
    reopened: Reopened,
    layers: Sequence[Layer],
    batches: Sequence[Sequence[TextBatch]],
    progress: PassProgress,
    sinks: SinkRecorder | None,
) -> dict[int, Parts]:
    held: dict[int, Parts] = {layer.index: [] for layer in layers}
    source = reopened.source.narrowed(layers) if sinks is None else reopened.source
    for chunk, of_chunk in enumerate(batches):

        def sink(batch: Batch, chunk: int = chunk) -> None:
            if sinks is not None:
                sinks.record(batch)
            if batch.layer not in held:
                return
            own = batch.states.to(torch.float32, copy=True)  # blocks may overwrite their output
            held[batch.layer].append((Batch(batch.layer, own, batch.places), chunk))

        for prepared in of_chunk:
            began = time.monotonic()
            source.run(prepared, sink)
            progress.advance(prepared.positions, time.monotonic() - began)
    return held


def _join_parts(parts: Parts) -> ChunkStates:
    vectors = torch.cat([batch.states for batch, _ in parts])
    places = [batch.places for batch, _ in parts]
    chunk = torch.cat([torch.full((len(batch.places),), number) for batch, number in parts])
    found = ChunkStates(
        vectors,
        torch.cat([one.key for one in places]),
        torch.cat([one.context for one in places]),
        torch.cat([one.first for one in places]),
        chunk,
    )
    finite = torch.isfinite(vectors).all(dim=1)
    if finite.all():
        return found
    return ChunkStates(*(field[finite] for field in (vectors, found.key, found.context, found.first, chunk)))
