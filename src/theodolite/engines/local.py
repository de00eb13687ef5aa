"""The local engine: one process folds the shards in order, with a checkpoint from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from theodolite.batch import Places
from theodolite.engines.batch_splitting import BatchRunner, PartlyAddedError
from theodolite.engines.engine import Plan, Work
from theodolite.engines.gpu import accumulate_on_device
from theodolite.engines.progress import Listener, Progress
from theodolite.engines.threads import one_torch_thread
from theodolite.errors import TheodoliteError
from theodolite.sources.batch_limit import BatchLimit
from theodolite.sources.prefetch import Prefetcher, ShardPreparation, gpu_waits
from theodolite.sources.source import Source, each_batch, each_kind
from theodolite.sources.units import Units
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot, take_pilots
from theodolite.state.skipped import Skipped
from theodolite.state.state import SavedState, ShardKey, State
from theodolite.state.worker_states import WorkerStates
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.sinks import Fold
from theodolite.storage.file_names import UNFINISHED, UNITS
from theodolite.storage.location import Location


@dataclass(frozen=True, slots=True)
class FoldStep:
    """What was folded with one batch."""

    shard: int  # its index
    batch: int  # batches of the shard folded so far
    last: bool  # the shard is complete
    positions: int
    share: float  # of the shard's positions, folded so far
    added: float  # of them, with this batch
    others: tuple[int, ...] = ()  # positions by other kinds of units


OnPlaces = Sequence[Callable[[Places], None] | None]


def fold_shards(
    source: Source,
    folds: Mapping[int, Fold],
    shards: Iterable[tuple[int, list[tuple[int, Any]]]],
    *,
    skip: int = 0,
    on_step: Callable[[FoldStep], None],
    on_places: OnPlaces = (),
) -> None:
    """Fold (index, documents) pairs in order, without the first `skip` batches of the first one.

    The order of batches is fixed, so an interrupted and resumed run adds the same numbers in the same order as an
    uninterrupted one. `on_places`, one function per kind of unit, is called with the positions of every batch
    before the batch runs.
    """
    with closing(ShardPreparation(source, shards)) as prepared:
        fold_prepared(source, folds, prepared, skip=skip, on_step=on_step, on_places=on_places)


def fold_prepared(
    source: Source,
    folds: Mapping[int, Fold],
    shards: Iterable[tuple[int, Sequence[Any]]],
    *,
    skip: int = 0,
    on_step: Callable[[FoldStep], None],
    on_places: OnPlaces = (),
    other_folds: Sequence[Mapping[int, Fold]] = (),
    limit: BatchLimit | None = None,
) -> float:
    """Do what `fold_shards` does with (index, batches) pairs; return the seconds spent waiting for batches.

    Batches above the limit, which is lowered if memory runs out, are run in parts; a step is a complete batch.
    """
    limit = limit or BatchLimit()
    runner = BatchRunner(source, (folds, *other_folds), limit)
    with closing(Prefetcher(_steps(shards, skip, on_places, limit))) as steps:
        for parts, step in steps:
            for part in parts:
                runner.run(part)
            on_step(step)
    return steps.waited


def _steps(
    shards: Iterable[tuple[int, Sequence[Any]]], skip: int, on_places: OnPlaces, limit: BatchLimit
) -> Iterator[tuple[list[Any], FoldStep]]:
    for index, batches in shards:
        for prepared, step in _steps_of_shard(index, batches, skip):
            parts = [] if prepared is None else limit.split(prepared)
            for part in parts:
                for call, batch in zip(on_places, each_batch(part), strict=False):
                    for side in (batch, getattr(batch, "decoder", None)):
                        if call is not None and side is not None:
                            call(side.places)
            yield parts, step
        skip = 0


def _steps_of_shard(index: int, batches: Sequence[Any], skip: int) -> Iterator[tuple[Any, FoldStep]]:
    total, done = sum(batch.positions for batch in batches), 0
    if not batches:  # no document has a position to fold
        yield None, FoldStep(index, 0, True, 0, 1.0, 1.0)
    for number, batch in enumerate(batches, start=1):
        done += batch.positions
        if number > skip:
            others = tuple(other.positions for other in each_batch(batch)[1:])
            last, added = number == len(batches), batch.positions / total
            yield batch, FoldStep(index, number, last, batch.positions, done / total, added, others)


class EarlyStart:
    """Starts to prepare all shards of a plan during the pilot, if a GPU would wait for them.

    Not for open vocabularies: their units get codes in the order of the fold, after those of the pilot.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._preparing: ShardPreparation | None = None
        if plan.device is not None and gpu_waits(plan.source):
            self._preparing = _start_preparing(plan, plan.shards, Skipped())

    def prepare(self, shards: Sequence[int], skipped: Skipped) -> ShardPreparation:
        """Return the preparation of these shards without skipped documents, the one already started if equal."""
        if self._preparing is None or list(shards) != list(self._plan.shards) or skipped:
            self.close()
            self._preparing = _start_preparing(self._plan, shards, skipped)
        return self._preparing

    def close(self) -> None:
        """Stop preparing."""
        if self._preparing is not None:
            self._preparing.close()


def _start_preparing(plan: Plan, shards: Sequence[int], skipped: Skipped) -> ShardPreparation:
    documents = ((index, skipped.without(index, texts)) for index, texts in plan.read(shards))
    return ShardPreparation(plan.source, documents, len(shards))


class LocalEngine:
    """Folds in this process. Used as a context manager, it leaves no thread or process running."""

    def __init__(self) -> None:
        self._checkpoints: Checkpoints | None = None
        self._skipped = Skipped()
        self._early_start: EarlyStart | None = None
        self._wait_seconds = 0.0

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *what: object) -> None:
        if self._early_start is not None:
            self._early_start.close()

    def ready(self, plan: Plan, listener: Listener) -> None:
        """Do nothing: there are no workers."""

    def start_early(self, plan: Plan, out: Location | None) -> None:
        """Start to prepare the text on the CPU, if a GPU would wait for it."""
        if out is None or not (out / UNFINISHED).is_file():  # a resumed run starts with another shard
            self._early_start = EarlyStart(plan)

    def pilot(self, plan: Plan, listener: Listener) -> list[Pilot]:
        """Take the pilot, one for each kind of unit."""
        with self._limit_threads(plan):
            return take_pilots(plan.source, plan.pilot_documents)

    def _limit_threads(self, plan: Plan) -> AbstractContextManager[None]:
        """Leave the cores to the processes that prepare text, unless sums are accumulated on the CPU."""
        on_cpu = plan.contextuality or plan.layer_scores
        return one_torch_thread() if gpu_waits(plan.source) and not on_cpu else nullcontext()

    def fold(self, work: Work) -> State:
        """Fold the shards that are in no checkpoint and no worker's state, then add the workers' states."""
        plan, listener = work.plan, work.listener
        state, worker_states = None, dict[str, SavedState]()
        known = [len(units) for units, _ in _kinds(work)]
        if work.out is not None:
            self._checkpoints = Checkpoints(work.out, work.every, work.recorded)
        if work.out is not None and work.resuming and self._checkpoints is not None:
            state = self._last_saved(work, known)
            worker_states = self._load_worker_states(work.out, _shards_in(state, plan.corpus_sha256), listener)
            listener.say(_describe_resume(state, worker_states, len(plan.shards)))
        done = {
            shard.index for saved in worker_states.values() for shard in saved.shards
        } | self._skipped.shards.keys()
        limit = BatchLimit(listener.warn)
        with self._limit_threads(plan):
            while True:
                self._early_start = self._early_start or EarlyStart(plan)
                state = state or _empty_state(work)
                try:
                    self._wait_seconds += _fold(
                        plan, state, done, self._checkpoints, listener, self._skipped, self._early_start, limit
                    )
                    break
                except PartlyAddedError:
                    listener.warn("the sums of this batch were incomplete: continuing from the last checkpoint")
                for each in state.each():
                    each.folds.clear()  # two states might not fit
                state = self._last_saved(work, known)
                self._early_start = None
        for name, saved in worker_states.items():
            assert work.out is not None
            listener.say(f"adding the state of worker {name}")
            WorkerStates(work.out).add_to(state, name, saved)
        for each in state.each():
            each.shards.sort()
        return state

    def _last_saved(self, work: Work, known: Sequence[int]) -> State | None:
        """Return the state of the last checkpoint, with the units that were `known` before it, by kind."""
        for (units, _), count in zip(_kinds(work), known, strict=True):
            units.forget(count)
        if self._checkpoints is None:
            return None
        return self._checkpoints.latest(lambda folder: _load_state(folder, work), work.listener.warn)

    def skipped(self) -> Skipped:
        """Return what a cluster skipped before this run resumed its work; the local engine skips nothing."""
        return self._skipped

    def facts(self) -> dict[str, Any]:
        """Return the engine's name."""
        return {"name": "local"}

    def seconds(self) -> dict[str, float]:
        """Return the seconds spent on checkpoints and on waiting for batches."""
        spent = {"checkpoints": self._checkpoints.spent} if self._checkpoints is not None else {}
        return spent | {"waiting_for_batches": self._wait_seconds}

    def _load_worker_states(self, out: Location, own: set[ShardKey], listener: Listener) -> dict[str, SavedState]:
        """Return the states that a run on a cluster saved; workers can no longer change them."""
        worker_states = WorkerStates(out)
        for name in worker_states.names():
            worker_states.fence(name)
        self._skipped = Skipped.load(worker_states.folder)
        found = worker_states.disjoint(listener.warn)
        # In a bucket, workers start from a copy of a local run's checkpoint; a killed one leaves both.
        return {name: saved for name, saved in found.items() if not own & set(saved.shards)}


def _kinds(work: Work) -> list[tuple[Units, Mapping[int, Frame]]]:
    """Return the units and the frames of each kind of unit."""
    units = [source.units for source in each_kind(work.plan.source)]
    return list(zip(units, (work.frames, *work.other_frames), strict=True))


def _empty_state(work: Work) -> State:
    first, *others = (
        State({index: LayerFold(frame) for index, frame in frames.items()}, units)
        for units, frames in _kinds(work)
    )
    return replace(first, others=tuple(others))


def _load_state(folder: Path, work: Work) -> State:
    (units, frames), *others = _kinds(work)
    loaded = (State.load(folder / UNITS / units.kind, frames, units) for units, frames in others)
    return replace(State.load(folder, frames, units), others=tuple(loaded))


def _shards_in(state: State | None, corpus: str) -> set[ShardKey]:
    """Return the shards of the state, including an incomplete one: no other state may add these."""
    if state is None:
        return set()
    incomplete = set() if state.under_way is None else {ShardKey(corpus, state.under_way)}
    return set(state.shards) | incomplete


def _fold(
    plan: Plan,
    state: State,
    in_other_states: set[int],
    checkpoints: Checkpoints | None,
    listener: Listener,
    skipped: Skipped,
    early_start: EarlyStart,
    limit: BatchLimit,
) -> float:
    """Fold the shards that are in no state yet, with checkpoints; return the seconds spent waiting for batches."""
    folded = {shard.index for shard in state.shards} | in_other_states
    remaining = [index for index in plan.shards if index not in folded]
    done, read = sum(plan.weight(index) for index in folded), 0.0  # shares of the corpus; `read` by this run
    started, before = time.monotonic(), state.positions

    def on_step(step: FoldStep) -> None:
        nonlocal done, read
        for each, positions in zip(state.each(), (step.positions, *step.others), strict=False):
            each.positions += positions
            each.cursor, each.under_way = step.batch, step.shard
        share = done + step.share * plan.weight(step.shard)
        read += step.added * plan.weight(step.shard)
        if step.last:
            for each in state.each():
                each.shards.append(ShardKey(plan.corpus_sha256, step.shard))
                each.cursor, each.under_way = 0, None
            done += plan.weight(step.shard)
        listener.progress(
            Progress(share, state.positions - before, time.monotonic() - started, share - read, before=before)
        )
        if checkpoints is not None and checkpoints.due(state):
            checkpoints.save(state)
            checkpoints.tidy()
        if listener.stop() and not (step.last and step.shard == final):
            _stop(state, checkpoints)

    waited, parts = 0.0, _order_shards(remaining, state.under_way)
    final = parts[-1][-1] if parts else None
    for indices in parts:
        with closing(early_start.prepare(indices, skipped)) as shards, ExitStack() as stack:
            devices = getattr(plan.source, "devices", None)
            on_places = [
                stack.enter_context(accumulate_on_device(each, plan.device, devices)) for each in state.each()
            ]
            waited += fold_prepared(
                plan.source,
                state.folds,
                shards,
                skip=state.cursor,
                on_step=on_step,
                on_places=on_places,
                other_folds=[other.folds for other in state.others],
                limit=limit,
            )
    return waited


def _order_shards(remaining: list[int], under_way: int | None) -> list[list[int]]:
    """Return the shards in reading order, with an incomplete one first.

    >>> _order_shards([4, 5], 4), _order_shards([1, 4, 5], 4), _order_shards([], None)
    ([[4, 5]], [[4], [1, 5]], [])
    """
    if under_way is None or remaining[:1] == [under_way]:
        return [remaining] if remaining else []
    return [part for part in ([under_way], [index for index in remaining if index != under_way]) if part]


def _stop(state: State, checkpoints: Checkpoints | None) -> None:
    if checkpoints is None:
        raise TheodoliteError("Interrupted. Nothing was saved, because --out was not given.")
    checkpoints.save(state)
    raise TheodoliteError(
        f"Interrupted after {state.positions:,} positions, all saved. Run the same command with --resume to "
        "continue."
    )


def _describe_resume(state: State | None, worker_states: dict[str, SavedState], total: int) -> str:
    states: list[State | SavedState] = [*([state] if state is not None else []), *worker_states.values()]
    if not states:
        return "no checkpoint found: starting from the beginning"
    shards, positions = sum(len(each.shards) for each in states), sum(each.positions for each in states)
    return f"resuming after {shards} of {total} shards, {positions:,} positions"
