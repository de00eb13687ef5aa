"""The memory that a survey needs, estimated before it starts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from theodolite.corpora.fields import FieldChoice
from theodolite.engines.engine import WorkerMemory
from theodolite.environment import MEMORY_SHARE, available_memory
from theodolite.errors import MemoryLimitError
from theodolite.models.layers import Layer
from theodolite.statistics.field_groups import FieldGroups
from theodolite.statistics.fold import expected_bytes, max_sample_size, statistics_for
from theodolite.statistics.frame import Frame
from theodolite.statistics.rare_units import KeptUnits
from theodolite.statistics.scatter import Scatter
from theodolite.surveys.unit_counts import UnitCounts
from theodolite.text import format_bytes, pluralize

SINK_MATRICES = 2
"""Cells of sinks that a layer of a language model has: first positions and others, massive here or elsewhere."""

WORTH_NAMING = 0.1
"""An option is advised if it can save at least this share of the memory that a survey needs."""


def estimate_bytes(
    layers: Sequence[Layer],
    types: int,
    *,
    sample_size: int,
    populations: int,
    contextuality: bool = False,
    sinks: bool = False,
    kept: KeptUnits | None = None,
    by: FieldChoice | None = None,
    vectors: int | None = None,
) -> int:
    """Return the expected bytes of the statistics, each of which states its own size, and of the tables.

    The tables need three times the unit sums of one layer, and nine numbers per unit, layer and population. With
    `sinks`, positions that are massive at some layer are apart. `kept` are the units that have a vector, if not
    all. `by` are the groups of documents by a field of the corpus. `vectors` is an upper bound of the positions of
    a layer, if one is known.
    """
    cells = 1 if populations == 1 else 2  # massive positions are too few to count
    total = 0
    for layer in layers:
        size = min(sample_size, max_sample_size(layer.dim), sample_size if vectors is None else vectors)
        frame = Frame(
            torch.empty(layer.dim),
            sample_size=size,
            contextuality=contextuality,
            kept=kept,
            by_groups=0 if by is None else len(by),
            by_matrices=0 if by is None else by.matrices,
            by_rows=0 if by is None else by.unit_rows,
            attention_heads=layer.attention_heads,
        )
        total += expected_bytes(frame, types, cells)
        matrices = cells + (SINK_MATRICES if sinks else 0)
        for kind in (Scatter, FieldGroups) if sinks else ():  # sinks may be more than coordinates
            if kind in statistics_for(frame):
                total += kind.expected_bytes(frame, 0, SINK_MATRICES)  # their units are counted already
        if vectors is not None and Scatter in statistics_for(frame):  # kept instead of a matrix
            total -= 8 * layer.dim * max(layer.dim - vectors, 0) * matrices
    widest = max((layer.dim for layer in layers), default=0)
    units = types if kept is None else kept.vectors
    return total + 3 * 8 * units * widest + 8 * 9 * types * len(layers) * populations


@dataclass
class Estimate:
    """The memory that a survey needs: for an upper bound of its units, until that refuses somebody."""

    types: int
    budget: int
    bytes_for: Callable[[int, KeptUnits | None], int]  # from the number of units, and which have a vector
    count: Callable[[], int] | None  # counts the units with a pass over the corpus; None: `types` is counted
    kept: KeptUnits | None = None  # the units that have a vector; None: all

    @property
    def bytes(self) -> int:
        """The bytes for that many units."""
        return self.bytes_for(self.types, self.kept)

    def bytes_within(self, allowed: int) -> int:
        """Return the bytes needed; the units are counted first if the upper bound needs more than `allowed`."""
        if self.bytes > allowed and self.count is not None:
            self.types, self.count = min(self.types, self.count()), None  # some sources count only a bound
        return self.bytes

    def facts(self) -> dict[str, int]:
        """Return what survey.json records."""
        facts = {"types": self.types, "bytes": self.bytes, "budget": self.budget}
        return facts if self.kept is None else facts | {"units_with_vector": self.kept.vectors}

    def keep_fewer(self, counts: UnitCounts, allowed: int) -> None:
        """Choose the smallest min_count with which the tables fit, or the largest if none does."""
        values = counts.min_counts
        first = bisect_left(values, True, key=lambda value: self._bytes_with(counts, value) <= allowed)
        self.kept = counts.choose(values[min(first, len(values) - 1)])

    def _bytes_with(self, counts: UnitCounts, min_count: int) -> int:
        return self.bytes_for(self.types, counts.choose(min_count))


def check_memory(
    layers: Sequence[Layer],
    bound: int,
    count: Callable[[], int],
    *,
    budget: int | None,
    sample_size: int,
    populations: int,
    contextuality: bool = False,
    sinks: bool = False,
    held: int = 0,
    others: Sequence[Estimate] = (),
    kept: KeptUnits | None = None,
    vectors: int | None = None,
    counts: Callable[[], UnitCounts] | None = None,
    by: FieldChoice | None = None,
    worker: WorkerMemory | None = None,
    given: bool = False,
    part: bool = False,
) -> Estimate:
    """Raise if the survey does not fit in the memory of this process, or of a worker; return the estimate.

    `bound` is an upper bound of the number of units. Only if that many would not fit are they counted, which
    takes a pass over the corpus without the model. `held` is the size of the states that are kept of a batch.
    `others` are surveys by other kinds of units in the same pass, which must fit at the same time. `kept` are the
    units that have a vector, if not all. With `counts`, the occurrences of all units, units may be left without a
    vector: as few as make the tables fit. `by` are the groups of documents by a field of the corpus. `vectors` is
    an upper bound of the positions of a layer, if known. All workers keep vectors of the same units, so what fits
    in the memory of the `worker` with the least fits in all. If a budget is given, units are left without a vector
    to fit in the budget only. The advice in the error depends on whether a min_count was `given` that may be
    omitted, and on whether the survey is of a `part` of the corpus.
    """
    own = budget if budget is not None else int(MEMORY_SHARE * available_memory())
    allowed = own if worker is None else min(own, worker.bytes)

    def of(units: int, kept: KeptUnits | None, sample_size: int = sample_size) -> int:
        return held + estimate_bytes(
            layers,
            units,
            sample_size=sample_size,
            populations=populations,
            contextuality=contextuality,
            sinks=sinks,
            kept=kept,
            by=by,
            vectors=vectors,
        )

    estimate = Estimate(bound, own, of, count, kept)
    beside = sum(other.bytes for other in others)
    need = estimate.bytes_within(allowed - beside)
    if beside and beside + need > allowed:  # count the units of the others too
        beside = sum(other.bytes_within(0) for other in others)
    goal = allowed if budget is None else budget
    if beside + need > goal and counts is not None:
        estimate.keep_fewer(counts(), goal - beside)
        need = estimate.bytes
    need += beside
    if need > allowed:
        types = estimate.types + sum(other.types for other in others)
        fewer = int(len(layers) * allowed / need)
        hint = f"; about {fewer} would fit" if fewer else ""
        groups = "" if by is None else f" and {len(by)} groups"
        chosen = "" if estimate.kept is None else f" even with --min-count {estimate.kept.min_count}"
        ways = [f"survey fewer layers at a time (--layers{hint})"] if len(layers) > 1 else []
        if by is not None:
            ways.append("use fewer groups (--by-top)")
        if types > 1:
            without = "" if contextuality or need - of(1, None) < WORTH_NAMING * need else " or --units none"
            ways.append(f"{'give fewer' if others else 'choose coarser'} --units{without}")
        if contextuality:
            ways.append("omit --contextuality")
        if estimate.bytes - of(estimate.types, estimate.kept, 0) >= WORTH_NAMING * need:
            ways.append("use a smaller --sample-size")
        limited, more = "", "allow more with --memory."
        if worker is not None and worker.bytes < own:
            limited = f" by each worker on {worker.host} (its workers: {worker.workers})"
            more = "use fewer --workers or machines with more memory."
            if counts is None or budget is not None:
                more += (
                    " If --min-count or --memory was given, omit it: rare units of a text then have no vector if "
                    "those of all units do not fit."
                )
        elif given:
            more += (
                " Or omit --min-count: the survey then chooses the smallest one with which it fits, if any does."
            )
        elif part and counts is not None:
            more += (
                " --min-count was chosen for the units of the whole corpus, so that all parts agree. With "
                "--min-count 1, given for all parts, only the units of this part are counted, which may fit."
            )
        units = f" and {types:,} units" if types > 1 else ""
        advice = f"{', '.join(ways)}, or {more}" if ways else more
        raise MemoryLimitError(
            f"This survey needs about {format_bytes(need)} for {pluralize(len(layers), 'layer')}{units}{groups}"
            f"{chosen}, but only {format_bytes(allowed)} may be used{limited}. {advice[0].upper()}{advice[1:]}"
        )
    return estimate
