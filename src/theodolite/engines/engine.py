"""What an engine is: it takes the pilot and folds the shards of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from theodolite.corpora.fields import FieldChoice
from theodolite.engines.progress import Listener
from theodolite.models.norm_placement import Placement
from theodolite.sources.source import Source
from theodolite.state.pilot import Pilot
from theodolite.state.skipped import Skipped
from theodolite.state.state import State
from theodolite.statistics.frame import Frame
from theodolite.storage.location import Location

Documents = list[tuple[int, Any]]


@dataclass(frozen=True)
class Plan:
    """Everything a run needs: what is folded, in which shards, and what identifies it."""

    source: Source
    corpus_sha256: str
    shards: Sequence[int]  # indices, in order
    read: Callable[[Sequence[int]], Iterable[tuple[int, Documents]]]  # the documents of these shards, in order
    weight: Callable[[int], float]  # share of the corpus in a shard
    pilot_documents: Documents
    weights_sha256: Callable[[], str]  # waits for the sha256 of the weights; "" without a model
    identity: dict[str, Any]  # lacks the sha256 of the weights, like `facts`, until the run is recorded
    facts: dict[str, Any]  # model, tokenizer and corpus, as recorded in survey.json
    populations: tuple[str, ...]
    sample_size: int
    types_bound: int
    vectors_bound: int | None = None  # upper bound of the positions of a layer, if known
    contextuality: bool = False
    layer_scores: bool = False
    min_count: int | None = 1  # units with fewer occurrences have no vector; None: as few as the memory requires
    min_count_given: bool = False  # by the user, who may omit it: it then depends on the memory
    corpus_shards: Sequence[int] | None = None  # of the whole corpus, if `shards` are a part of it
    budget: int | None = None
    pilot_from: Location | None = None
    device: str | None = None  # where sums are accumulated; None: on the CPU
    placement: Callable[[], Placement] | None = None  # waits for the placement of norms, if it can be found
    others: tuple[Plan, ...] = ()  # by other kinds of units: the same shards, folded in the same pass
    by: FieldChoice | None = None  # how documents are grouped by a field of the corpus
    remake: Callable[[], Source] | None = None  # makes the same source on another machine; can be pickled
    contexts: Callable[[], pd.DataFrame] | None = None  # reads contexts.parquet from the corpus
    finish: Callable[[Any], None] = lambda survey: None  # called with the finished survey


@dataclass(frozen=True)
class Work:
    """What to fold, and where to save checkpoints."""

    plan: Plan
    frames: Mapping[int, Frame]  # by layer
    out: Location | None
    resuming: bool  # the folder contains the start of this run
    every: float  # least seconds between checkpoints
    listener: Listener
    other_frames: tuple[Mapping[int, Frame], ...] = ()  # of each of the plan's `others`
    recorded: Callable[[], object] = lambda: None  # waits until `out` says of which run its checkpoints are


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """The memory that each worker may use, on the machine that has the least for each."""

    bytes: int
    host: str
    workers: int  # on that machine


class Engine(Protocol):
    """Runs a plan; the result does not depend on the engine."""

    def ready(self, plan: Plan, listener: Listener) -> WorkerMemory | None:
        """Reject what cannot work, before anything is written; return the memory of the workers, if there are any.

        Every worker keeps a complete state.
        """

    def start_early(self, plan: Plan, out: Location | None) -> None:
        """Start what can be done while the pilot is taken; nothing more will be rejected."""

    def pilot(self, plan: Plan, listener: Listener) -> list[Pilot]:
        """Take the pilot, one for each kind of unit."""

    def fold(self, work: Work) -> State:
        """Fold every shard that is not in the folder yet, and return the sums of all."""

    def skipped(self) -> Skipped:
        """Return the documents that could not be folded."""

    def facts(self) -> dict[str, Any]:
        """Return what survey.json records about the engine."""

    def seconds(self) -> dict[str, float]:
        """Return the seconds spent within the fold, by activity."""
