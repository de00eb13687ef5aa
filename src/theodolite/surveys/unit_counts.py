"""Units are counted before the fold, if their number or their occurrences decide what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.engines.engine import Plan
from theodolite.sources.units import Units
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


def count_units(plan: Plan) -> UnitCounts:
    """Tokenize the whole corpus, all parts of it, without running the model.

    A unit that both an encoder and a decoder read counts as often as it occurs in the one that reads it more.
    """
    sides: tuple[dict[int, int], ...] = ({}, {})
    first: set[int] = set()
    for _, documents in plan.read(plan.shards if plan.corpus_shards is None else plan.corpus_shards):
        for prepared in plan.source.prepare(documents):
            for counts, (names, at_start) in zip(sides, _names(prepared), strict=False):
                first.update(names[at_start].tolist())
                found, times = np.unique(names, return_counts=True)
                for name, n in zip(found.tolist(), times.tolist(), strict=True):
                    counts[name] = counts.get(name, 0) + n
    total = sides[0] | {name: max(n, sides[0].get(name, 0)) for name, n in sides[1].items()}
    names, n = (np.fromiter(part, dtype=np.int64, count=len(total)) for part in (total, total.values()))
    starts = np.fromiter(sorted(first), dtype=np.int64, count=len(first))
    return UnitCounts(names, n, _special(plan.source.units), starts)


def _names(prepared: Any) -> Iterator[tuple[Ints, NDArray[np.bool_]]]:
    """Yield the name of each position, and whether it is the first of its window, for encoder and decoder."""
    for side in (prepared, getattr(prepared, "decoder", None)):
        if side is not None:
            places = side.places
            yield (places.unit if places.unit_hash is None else places.unit_hash).numpy(), places.first.numpy()


def _special(units: Units) -> Ints:
    codes = np.array([code for code, unit in enumerate(units.known) if unit.special], dtype=np.int64)
    return units.hash_keys(codes).view(np.int64) if units.open else codes
