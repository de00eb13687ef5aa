"""The local engine: one process folds the shards one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from theodolite.batch import Batch, Places
from theodolite.engines.ahead import ahead, ahead_in_order
from theodolite.engines.forked import forked, room_for
from theodolite.sources.source import Source

WORKERS = 2
"""Shards tokenized at a time where a GPU waits and no copies of this process can help: while Rust encodes one,
Python packs the other."""


class Fold(Protocol):
    """What takes in the batches of one layer."""

    def update(self, batch: Batch) -> None:
        """Take in one batch."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What the engine says after each batch."""

    shard: int  # its index
    batch: int  # batches of the shard folded so far
    last: bool  # the shard is folded whole
    positions: int
    share: float  # of the shard's positions that are folded


def fold_shards(
    source: Source,
    folds: Mapping[int, Fold],
    shards: Iterable[tuple[int, list[tuple[int, Any]]]],
    *,
    skip: int = 0,
    told: Callable[[Folded], None],
    lay_out: Callable[[Places], None] | None = None,
    begun: Callable[[int, list[tuple[int, Any]]], Sequence[Any] | None] | None = None,
) -> None:
    """Fold (index, documents) pairs in order, leaving out the first `skip` batches of the first one.

    The order of batches is fixed, so a run that is interrupted and taken up again adds the same numbers in the
    same order as one that is not. `lay_out` is called with the places of every batch before its turn. `begun`
    gives the batches of a shard that has been prepared already, None for others.
    """

    def sink(batch: Batch) -> None:
        folds[batch.layer].update(batch)

    def steps() -> Iterator[tuple[Any, Folded]]:
        for prepared, step in _steps(source, shards, skip, begun or (lambda shard, documents: None)):
            for side in (prepared, getattr(prepared, "decoder", None)):
                if lay_out is not None and side is not None:
                    lay_out(side.places)
            yield prepared, step

    for prepared, step in ahead(steps()):
        if prepared is not None:
            source.run(prepared, sink)
        told(step)


def _steps(
    source: Source,
    shards: Iterable[tuple[int, list[tuple[int, Any]]]],
    skip: int,
    begun: Callable[[int, list[tuple[int, Any]]], Sequence[Any] | None],
) -> Iterator[tuple[Any, Folded]]:
    with _preparing(source) as (prepare, workers):

        def prepared(shard: tuple[int, list[tuple[int, Any]]]) -> tuple[int, Sequence[Any]]:
            batches = begun(*shard)
            return shard[0], prepare(shard[1]) if batches is None else batches

        for index, batches in ahead_in_order(prepared, shards, workers):
            yield from _of_shard(index, batches, skip)
            skip = 0


@contextmanager
def _preparing(source: Source) -> Iterator[tuple[Callable[[list[tuple[int, Any]]], Sequence[Any]], int]]:
    """Give what prepares the documents of a shard, and how many shards at a time."""
    # Words get their codes in the order in which they are met, so there one shard comes after the other.
    if not getattr(source, "resident", False) or source.units.open:
        yield source.prepare, 1
    elif copies := room_for():
        with forked(source.prepare, copies) as prepare:
            yield prepare, copies
    else:
        yield source.prepare, WORKERS


def _of_shard(index: int, batches: Sequence[Any], skip: int) -> Iterator[tuple[Any, Folded]]:
    total, done = sum(batch.positions for batch in batches), 0
    if not batches:  # documents without one token that counts
        yield None, Folded(index, 0, True, 0, 1.0)
    for number, batch in enumerate(batches, start=1):
        done += batch.positions
        if number > skip:
            yield batch, Folded(index, number, number == len(batches), batch.positions, done / total)
