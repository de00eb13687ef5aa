"""The local engine: one process folds the shards one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from theodolite.batch import Batch
from theodolite.engines.ahead import ahead
from theodolite.sources.source import Source


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
) -> None:
    """Fold (index, documents) pairs in order, leaving out the first `skip` batches of the first one.

    The order of batches is fixed, so a run that is interrupted and taken up again adds the same numbers in the
    same order as one that is not.
    """

    def sink(batch: Batch) -> None:
        folds[batch.layer].update(batch)

    for prepared, step in ahead(_steps(source, shards, skip)):
        if prepared is not None:
            source.run(prepared, sink)
        told(step)


def _steps(
    source: Source, shards: Iterable[tuple[int, list[tuple[int, Any]]]], skip: int
) -> Iterator[tuple[Any, Folded]]:
    for index, documents in shards:
        batches = source.prepare(documents)
        total, done = sum(batch.positions for batch in batches), 0
        if not batches:  # documents without one token that counts
            yield None, Folded(index, 0, True, 0, 1.0)
        for number, batch in enumerate(batches, start=1):
            done += batch.positions
            if number > skip:
                yield batch, Folded(index, number, number == len(batches), batch.positions, done / total)
        skip = 0
