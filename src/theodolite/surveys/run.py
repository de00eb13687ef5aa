"""The run: from a source and its shards to a finished survey, taken up again where it was interrupted."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from theodolite.engines.local import Folded, fold_shards
from theodolite.errors import InputError, TheodoliteError
from theodolite.measures.formula import formula_of_column
from theodolite.sources.source import Source
from theodolite.sources.text.norm import Norm
from theodolite.statistics.fold import LayerFold
from theodolite.surveys import memory
from theodolite.surveys.alone import alone
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.files import read_json, write_json
from theodolite.surveys.folder import FACTS, SCHEMA, UNFINISHED, claim, open_survey, save
from theodolite.surveys.identity import differences
from theodolite.surveys.listener import Listener, Progress
from theodolite.surveys.pilot import FILE as PILOT_FILE
from theodolite.surveys.pilot import Pilot, take_pilot
from theodolite.surveys.residence import residing
from theodolite.surveys.state import ShardKey, State
from theodolite.surveys.survey import Survey
from theodolite.surveys.tables import make_tables

Documents = list[tuple[int, Any]]
FORMULATED = ("layers", "tokens", "coordinates", "scales", "spectra")  # tables whose columns have formulas


@dataclass(frozen=True)
class Plan:
    """Everything a run needs to know: what is folded, in which shards, and what identifies it."""

    source: Source
    corpus_sha256: str
    shards: Sequence[int]  # indices, in order
    read: Callable[[Sequence[int]], Iterable[tuple[int, Documents]]]  # the documents of these shards, in order
    weight: Callable[[int], float]  # a shard's share of the corpus
    pilot_documents: Documents
    model_sha256: str
    identity: dict[str, Any]
    facts: dict[str, Any]  # model, tokenizer and corpus, as survey.json tells them
    populations: tuple[str, ...]
    sample_size: int
    types_bound: int
    contextuality: bool = False
    budget: int | None = None
    pilot_from: Path | None = None
    device: str | None = None  # where sums are kept while they are taken; None: on the processor
    norms: dict[int, Norm] = field(default_factory=dict)  # by layer, where the state leaves a norm
    finally_: Callable[[Survey], None] = lambda survey: None  # what is to be told of the finished survey


@dataclass
class Clock:
    """Seconds spent on each part of a run."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Put the time since the last lap under this name."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def run(
    plan: Plan,
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
) -> Survey:
    """Carry a plan out. With `out`, checkpoints and the finished folder go there, and no other run's meanwhile."""
    with alone(out) if out is not None else nullcontext():
        made = _run(plan, out, resume, overwrite, listener or Listener(), checkpoint_every)
    plan.finally_(made)
    return made


def _run(
    plan: Plan, out: Path | None, resume: bool, overwrite: bool, listener: Listener, checkpoint_every: float
) -> Survey:
    clock = Clock()
    resuming = out is not None and resume and _can_resume(out, plan)
    if out is not None and resuming and (out / FACTS).is_file():
        listener.say(f"{out} holds this very survey, finished: nothing to do")
        survey = open_survey(out)
        _tidy(out)
        return survey
    closed = len(plan.source.units)
    estimate = _check_memory(plan)
    pilot = _pilot(plan, out if resuming else None, listener)
    # Words get their codes in the fold alone: a resumed run takes no pilot and may not count, yet must agree.
    plan.source.units.forget(closed)
    if out is not None and not resuming:  # only now: what could be refused has been
        claim(out, overwrite=overwrite)
        write_json(out / UNFINISHED, plan.identity)
    if out is not None:
        pilot.save(out)
    clock.lap("pilot")
    frames = {
        layer.index: pilot.frame(
            layer.index,
            populations=plan.populations,
            sample_size=plan.sample_size,
            contextuality=plan.contextuality,
        )
        for layer in plan.source.layers
    }
    checkpoints = Checkpoints(out, checkpoint_every) if out is not None else None
    state = None
    if checkpoints is not None and resuming:
        state = checkpoints.latest(lambda folder: State.load(folder, frames, plan.source.units), listener.warn)
        listener.say(_taken_up(state, len(plan.shards)))
    state = state or State({index: LayerFold(frame) for index, frame in frames.items()}, plan.source.units)
    _fold(plan, state, checkpoints, listener)
    clock.lap("fold")
    survey = _finished(plan, state, pilot, clock, estimate, listener)
    if checkpoints is not None:
        survey.facts["times"]["seconds"]["checkpoints"] = round(checkpoints.spent, 3)
    if out is not None:
        listener.say("writing the survey")
        save(survey, out)
        _tidy(out)
    return survey


def _tidy(out: Path) -> None:
    """Remove what only an unfinished run needs, and what killed ones left half written."""
    (out / UNFINISHED).unlink(missing_ok=True)
    Checkpoints(out).clear()
    for part in out.glob(".*.part"):
        part.unlink(missing_ok=True)


def _fold(plan: Plan, state: State, checkpoints: Checkpoints | None, listener: Listener) -> None:
    """Fold what the state does not hold yet, with a checkpoint now and then."""
    held = {shard.index for shard in state.shards}
    rest = [index for index in plan.shards if index not in held]
    done = begun = sum(plan.weight(index) for index in held)
    began, before = time.monotonic(), state.positions

    def told(step: Folded) -> None:
        nonlocal done
        state.positions += step.positions
        state.cursor = step.batch
        share = done + step.share * plan.weight(step.shard)
        if step.last:
            state.shards.append(ShardKey(plan.corpus_sha256, step.shard))
            state.cursor = 0
            done += plan.weight(step.shard)
        listener.progress(Progress(share, state.positions - before, time.monotonic() - began, begun))
        if checkpoints is not None and checkpoints.due():
            checkpoints.save(state)
        if listener.stop():
            _stop(state, checkpoints)

    if rest:
        with residing(state, plan.device) as lay_out:
            shards = plan.read(rest)
            fold_shards(plan.source, state.folds, shards, skip=state.cursor, told=told, lay_out=lay_out)


def _stop(state: State, checkpoints: Checkpoints | None) -> None:
    if checkpoints is None:
        raise TheodoliteError("Interrupted; nothing was saved, since no --out was given.")
    checkpoints.save(state)
    raise TheodoliteError(
        f"Interrupted after {state.positions:,} positions, all saved: the same command with --resume goes on."
    )


def _pilot(plan: Plan, resumed: Path | None, listener: Listener) -> Pilot:
    """Read the pilot of this run or of another survey, or take one."""
    if resumed is not None and (resumed / PILOT_FILE).is_file():
        return Pilot.load(resumed)
    if plan.pilot_from is not None:
        pilot = Pilot.load(plan.pilot_from)
        pilot.check(plan.source.layers, plan.model_sha256)
        return pilot
    listener.say(f"pilot: {len(plan.pilot_documents)} documents")
    return take_pilot(plan.source, plan.pilot_documents, plan.model_sha256)


def _can_resume(out: Path, plan: Plan) -> bool:
    """Say whether the folder holds the beginning of this run; refuse if it is the beginning of another."""
    for name in (UNFINISHED, FACTS):
        if (out / name).is_file():
            there = read_json(out / name)
            there = there["identity"] if name == FACTS else there
            lines = differences(there, plan.identity)
            if lines:
                listed = "\n  ".join(lines)
                raise InputError(f"--resume: the run in {out} had other settings:\n  {listed}")
            return True
    return False


def _check_memory(plan: Plan) -> dict[str, int]:
    def count() -> int:
        seen: set[int] = set()
        for _, documents in plan.read(plan.shards):
            for prepared in plan.source.prepare(documents):
                seen.update(plan.source.units_of(prepared))
        return len(seen)

    return memory.check(
        plan.source.layers,
        plan.types_bound,
        count,
        budget=plan.budget,
        sample_size=plan.sample_size,
        populations=len(plan.populations),
        contextuality=plan.contextuality,
    )


def _taken_up(state: State | None, total: int) -> str:
    if state is None:
        return "no checkpoint to take up: starting from the beginning"
    return f"taking up after {len(state.shards)} of {total} shards, {state.positions:,} positions"


def _finished(
    plan: Plan, state: State, pilot: Pilot, clock: Clock, estimate: dict[str, int], listener: Listener
) -> Survey:
    layers = plan.source.layers
    tables = make_tables(state, layers, plan.populations, told=listener.say)
    clock.lap("tables")
    whole = tables.layers[tables.layers["population"] == plan.populations[0]]
    lost = whole[whole["nonfinite"] > 0]
    for row in lost.itertuples():
        listener.warn(
            f"layer {row.layer} ({row.layer_name}): {row.nonfinite:,} NaN or infinite states were left out"
        )
    facts = {
        "schema": SCHEMA,
        **plan.facts,
        "units": state.units.kind,
        "populations": list(plan.populations),
        "layers": [asdict(layer) for layer in layers],
        "pilot": {**pilot.facts, "sha256": pilot.sha256},
        "settings": plan.identity["settings"],
        "identity": plan.identity,
        "formulas": {table: formula_of_column(table) for table in FORMULATED},
        "versions": versions(),
        "times": {
            "started": clock.started,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": clock.seconds,
        },
        "counts": {
            "positions": state.positions,
            "types": len(tables.units),
            "shards": len(state.shards),
            "nonfinite": int(whole["nonfinite"].fillna(0).sum()),
        },
        "memory": estimate,
    }
    return Survey(facts, tables, state, pilot, norms=plan.norms)


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    from importlib.metadata import version

    packages = ("theodolite", "torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow")
    return {"python": sys.version.split()[0], "platform": platform.platform()} | {p: version(p) for p in packages}


def part_of(shards: Sequence[int], part: str | None) -> Iterator[int]:
    """Yield the shards of part "i/n": every n-th one, counted from i = 0."""
    if part is None:
        yield from shards
        return
    number, slash, of = part.partition("/")
    if not (slash and number.isdigit() and of.isdigit() and int(number) < int(of)):
        raise InputError(f"--part {part!r}: wanted I/N with 0 <= I < N, such as 0/4 for the first of four parts.")
    yield from shards[int(number) :: int(of)]
