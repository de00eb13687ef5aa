"""Units are counted before the fold, if their number or their occurrences decide what is kept of them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.engines.engine import Documents, Plan
from theodolite.sources.prefetch import gpu_waits, map_ahead
from theodolite.sources.source import Source
from theodolite.sources.text.encoding import use_threads
from theodolite.sources.units import Units
from theodolite.sources.worker_processes import start_workers
from theodolite.statistics.rare_units import KeptUnits, choose_units, distinct_min_counts

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitCounts:
    """Occurrences of every unit in a corpus, by name (see `KeptUnits`). (units,) each"""

    names: Ints
    n: Ints
    special: Ints  # the names of special units, which always have a vector
    first: Ints  # the names of units that occur at the start of a window

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def min_counts(self) -> list[int]:
        """The values of min_count that differ in their effect, smallest first."""
        return [int(value) for value in distinct_min_counts(self.n)]

    def choose(self, min_count: int) -> KeptUnits:
        """Return which units have a vector."""
        return choose_units(self.names, self.n, min_count, always=self.special.tolist(), first=self.first.tolist())


def count_units(plan: Plan, processes: ExitStack) -> UnitCounts:
    """Tokenize the whole corpus, all parts of it, without running the model.

    A unit that both an encoder and a decoder read counts as often as it occurs in the one that reads it more.
    Worker processes are killed at the end, and `processes` waits until they have ended.
    """
    units, shards = plan.source.units, plan.shards if plan.corpus_shards is None else plan.corpus_shards
    documents = (texts for _, texts in plan.read(shards))
    count = partial(_count_shard, plan.source)
    sides, first = (Counter[int](), Counter[int]()), set[int]()
    # Before the fork: reading objects afterwards copies their memory, because their reference counts change.
    special = None if units.open else _special(units)
    # Words get their codes as they occur, so they are counted in this process.
    workers = start_workers(count, len(shards), use_threads) if gpu_waits(plan.source) else None
    with ExitStack() as stack:
        if workers is not None:
            processes.callback(workers.close)
            stack.callback(workers.kill)
        for counted, starts in (
            map(count, documents) if workers is None else map_ahead(workers, documents, workers.count)
        ):
            first.update(starts.tolist())
            for side, (found, times) in zip(sides, counted, strict=True):
                side.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
    total = sides[0] | {name: max(n, sides[0].get(name, 0)) for name, n in sides[1].items()}
    names, n = (np.fromiter(part, dtype=np.int64, count=len(total)) for part in (total, total.values()))
    at_start = np.fromiter(sorted(first), dtype=np.int64, count=len(first))
    return UnitCounts(names, n, _special(units) if special is None else special, at_start)


Counts = tuple[Ints, Ints]
"""Names, and how often each occurs. (units,) each"""


def _count_shard(source: Source, documents: Documents) -> tuple[tuple[Counts, Counts], Ints]:
    """Return the counts of an encoder or the only stack, and of a decoder, and the names at starts of windows."""
    names: tuple[list[Ints], list[Ints]] = ([], [])
    first: list[Ints] = [np.zeros(0, dtype=np.int64)]
    for prepared in source.prepare(documents):
        sides: tuple[Any, Any] = (prepared, getattr(prepared, "decoder", None))
        for found, side in zip(names, sides, strict=True):
            if side is not None:
                places = side.places
                found.append((places.unit if places.unit_hash is None else places.unit_hash).numpy())
                first.append(found[-1][places.first.numpy()])
    one, other = (np.unique(np.concatenate([first[0], *parts]), return_counts=True) for parts in names)
    return (one, other), np.unique(np.concatenate(first))


def _special(units: Units) -> Ints:
    codes = np.array([code for code, unit in enumerate(units.known) if unit.special], dtype=np.int64)
    return units.hash_keys(codes).view(np.int64) if units.open else codes
