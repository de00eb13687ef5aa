"""The local engine: one process folds the shards one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from theodolite.batch import Batch, Places
from theodolite.engines.ahead import Ahead
from theodolite.engines.preparing import Preparing
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
    lay_out: Callable[[Places], None] | None = None,
) -> None:
    """Fold (index, documents) pairs in order, leaving out the first `skip` batches of the first one.

    The order of batches is fixed, so a run that is interrupted and taken up again adds the same numbers in the
    same order as one that is not. `lay_out` is called with the places of every batch before its turn.
    """
    with closing(Preparing(source, shards)) as prepared:
        fold_prepared(source, folds, prepared, skip=skip, told=told, lay_out=lay_out)


def fold_prepared(
    source: Source,
    folds: Mapping[int, Fold],
    shards: Iterable[tuple[int, Sequence[Any]]],
    *,
    skip: int = 0,
    told: Callable[[Folded], None],
    lay_out: Callable[[Places], None] | None = None,
) -> float:
    """Do what `fold_shards` does with (index, batches) pairs; return the seconds for which it waited for them."""

    def sink(batch: Batch) -> None:
        folds[batch.layer].update(batch)

    with closing(Ahead(_steps(shards, skip, lay_out))) as steps:
        for prepared, step in steps:
            if prepared is not None:
                source.run(prepared, sink)
            told(step)
    return steps.waited


def _steps(
    shards: Iterable[tuple[int, Sequence[Any]]], skip: int, lay_out: Callable[[Places], None] | None
) -> Iterator[tuple[Any, Folded]]:
    for index, batches in shards:
        for prepared, step in _of_shard(index, batches, skip):
            for side in (prepared, getattr(prepared, "decoder", None)):
                if lay_out is not None and side is not None:
                    lay_out(side.places)
            yield prepared, step
        skip = 0


def _of_shard(index: int, batches: Sequence[Any], skip: int) -> Iterator[tuple[Any, Folded]]:
    total, done = sum(batch.positions for batch in batches), 0
    if not batches:  # documents without one token that counts
        yield None, Folded(index, 0, True, 0, 1.0)
    for number, batch in enumerate(batches, start=1):
        done += batch.positions
        if number > skip:
            yield batch, Folded(index, number, number == len(batches), batch.positions, done / total)
