"""The engine of one process: shards are folded one after the other, with a checkpoint now and then."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

from theodolite.engines.local import Folded, fold_prepared
from theodolite.engines.preparing import waited_for
from theodolite.engines.turns import one_thread
from theodolite.errors import TheodoliteError
from theodolite.statistics.fold import LayerFold
from theodolite.surveys.begun import Begun
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.engine import Work
from theodolite.surveys.folder import UNFINISHED
from theodolite.surveys.left_out import LeftOut
from theodolite.surveys.listener import Listener, Progress
from theodolite.surveys.partials import Partials
from theodolite.surveys.pilot import Pilot, take_pilot
from theodolite.surveys.plan import Plan
from theodolite.surveys.residence import residing
from theodolite.surveys.state import SavedState, ShardKey, State
from theodolite.surveys.storage import Place


class Here:
    """The local engine. As a context, it leaves nothing running behind."""

    def __init__(self) -> None:
        self._checkpoints: Checkpoints | None = None
        self._left_out = LeftOut()
        self._begun: Begun | None = None
        self._waited = 0.0

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *what: object) -> None:
        if self._begun is not None:
            self._begun.close()

    def ready(self, plan: Plan, out: Place | None, memory: int, listener: Listener) -> None:
        """Have the processor begin with the text that a GPU will wait for; the model is loaded."""
        if out is None or not (out / UNFINISHED).is_file():  # a run that is taken up begins with another shard
            self._begun = Begun(plan)

    def pilot(self, plan: Plan, listener: Listener) -> Pilot:
        """Take the pilot."""
        with self._beside_copies(plan):
            return take_pilot(plan.source, plan.pilot_documents, plan.model_sha256)

    def _beside_copies(self, plan: Plan) -> AbstractContextManager[None]:
        """Leave the cores to those who prepare text, unless sums are taken here."""
        return one_thread() if waited_for(plan.source) and not plan.contextuality else nullcontext()

    def fold(self, work: Work) -> State:
        """Fold what neither a checkpoint nor a worker's saved state holds, then add the latter."""
        plan, listener = work.plan, work.listener
        state, partials = None, dict[str, SavedState]()
        if work.out is not None:
            self._checkpoints = Checkpoints(work.out, work.every)
        if work.out is not None and work.resuming and self._checkpoints is not None:
            units = plan.source.units
            state = self._checkpoints.latest(lambda folder: State.load(folder, work.frames, units), listener.warn)
            partials = self._of_workers(work.out, _mine(state, plan.corpus_sha256), listener)
            listener.say(_taken_up(state, partials, len(plan.shards)))
        held = {
            shard.index for saved in partials.values() for shard in saved.shards
        } | self._left_out.shards.keys()
        self._begun = self._begun or Begun(plan)
        with self._beside_copies(plan):
            if state is None:
                folds = {index: LayerFold(frame) for index, frame in work.frames.items()}
                state = State(folds, plan.source.units)
            self._waited = _fold(plan, state, held, self._checkpoints, listener, self._left_out, self._begun)
        for name, saved in partials.items():
            assert work.out is not None
            listener.say(f"adding what worker {name} saved")
            Partials(work.out).add_to(state, name, saved)
        state.shards.sort()
        return state

    def left_out(self) -> LeftOut:
        """Return what a cluster left out before this run took up its work; here an error ends the run."""
        return self._left_out

    def facts(self) -> dict[str, Any]:
        """Return the engine's name."""
        return {"name": "local"}

    def seconds(self) -> dict[str, float]:
        """Return the time that checkpoints took, and that in which no batch was ready."""
        spent = {"checkpoints": self._checkpoints.spent} if self._checkpoints is not None else {}
        return spent | {"waiting_for_batches": self._waited}

    def _of_workers(self, out: Place, mine: set[ShardKey], listener: Listener) -> dict[str, SavedState]:
        """Return what a run on a cluster saved, kept from workers of it that may still be writing."""
        partials = Partials(out)
        for name in partials.names():
            partials.fence(name)
        self._left_out = LeftOut.load(partials.folder)
        found = partials.disjoint(listener.warn)
        # In a bucket workers begin with a copy of what a run in one process saved; one killed then leaves both.
        return {name: saved for name, saved in found.items() if not mine & set(saved.shards)}


def _mine(state: State | None, corpus: str) -> set[ShardKey]:
    """Return the shards that the state holds, also in part: of no other may these be added."""
    if state is None:
        return set()
    begun = set() if state.under_way is None else {ShardKey(corpus, state.under_way)}
    return set(state.shards) | begun


def _fold(
    plan: Plan,
    state: State,
    elsewhere: set[int],
    checkpoints: Checkpoints | None,
    listener: Listener,
    left_out: LeftOut,
    preparing: Begun,
) -> float:
    """Fold what is held neither by the state nor elsewhere, with a checkpoint now and then.

    Return the seconds for which it waited for batches.
    """
    held = {shard.index for shard in state.shards} | elsewhere
    rest = [index for index in plan.shards if index not in held]
    done = begun = sum(plan.weight(index) for index in held)
    began, before = time.monotonic(), state.positions

    def told(step: Folded) -> None:
        nonlocal done
        state.positions += step.positions
        state.cursor, state.under_way = step.batch, step.shard
        share = done + step.share * plan.weight(step.shard)
        if step.last:
            state.shards.append(ShardKey(plan.corpus_sha256, step.shard))
            state.cursor, state.under_way = 0, None
            done += plan.weight(step.shard)
        listener.progress(Progress(share, state.positions - before, time.monotonic() - began, begun))
        if checkpoints is not None and checkpoints.due():
            checkpoints.save(state)
            checkpoints.tidy()
        if listener.stop():
            _stop(state, checkpoints)

    waited = 0.0
    for some in _in_turn(rest, state.under_way):
        with closing(preparing.taken(some, left_out)) as shards, residing(state, plan.device) as lay_out:
            skip = state.cursor
            waited += fold_prepared(plan.source, state.folds, shards, skip=skip, told=told, lay_out=lay_out)
    return waited


def _in_turn(rest: list[int], under_way: int | None) -> list[list[int]]:
    """Return the shards in the order of their reading; one that is under way comes first, whatever was lost since.

    >>> _in_turn([4, 5], 4), _in_turn([1, 4, 5], 4), _in_turn([], None)
    ([[4, 5]], [[4], [1, 5]], [])
    """
    if under_way is None or rest[:1] == [under_way]:
        return [rest] if rest else []
    return [part for part in ([under_way], [index for index in rest if index != under_way]) if part]


def _stop(state: State, checkpoints: Checkpoints | None) -> None:
    if checkpoints is None:
        raise TheodoliteError("Interrupted; nothing was saved, since no --out was given.")
    checkpoints.save(state)
    raise TheodoliteError(
        f"Interrupted after {state.positions:,} positions, all saved: the same command with --resume goes on."
    )


def _taken_up(state: State | None, partials: dict[str, SavedState], total: int) -> str:
    states: list[State | SavedState] = [*([state] if state is not None else []), *partials.values()]
    if not states:
        return "no checkpoint to take up: starting from the beginning"
    shards, positions = sum(len(each.shards) for each in states), sum(each.positions for each in states)
    return f"taking up after {shards} of {total} shards, {positions:,} positions"
