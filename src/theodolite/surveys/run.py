"""A run: from a plan to a finished survey, resumed where it was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pandas as pd

from theodolite.count_strata import describe_certain_units
from theodolite.engines.engine import Engine, Plan, Work, WorkerMemory
from theodolite.engines.gpu import OnDevice, sums_on_device, write_in_background
from theodolite.engines.local import LocalEngine
from theodolite.engines.progress import Listener
from theodolite.engines.threads import freeze_objects, frequent_thread_switches, load_solvers
from theodolite.environment import versions
from theodolite.errors import DamagedError
from theodolite.measures.decomposition import FREQUENT
from theodolite.measures.formula import formula_of_column
from theodolite.sources.prefetch import run_in_thread
from theodolite.sources.worker_processes import WorkerProcesses, start_workers
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot
from theodolite.state.state import State
from theodolite.state.worker_states import WorkerStates
from theodolite.statistics.cells import cells_to_separate
from theodolite.statistics.frame import Frame
from theodolite.statistics.rare_units import KeptUnits
from theodolite.storage.file_names import FACTS, PILOT, REPLACEMENT, TOKENS, UNFINISHED, UNITS
from theodolite.storage.files import read_json, write_json
from theodolite.storage.location import Location
from theodolite.storage.lock import exclusive
from theodolite.surveys import memory
from theodolite.surveys.by_field import BY
from theodolite.surveys.folder import MAX_SUMS, SCHEMA, SUMS_KEPT, claim, finish_replacement, open_survey, save
from theodolite.surveys.pilots import digest, get_pilots, survey_folders
from theodolite.surveys.provenance import differences
from theodolite.surveys.resume import FILTERS, PILOT_DIGEST, TEXT, find_recorded_run, run_identity
from theodolite.surveys.survey import OTHER_UNITS, Survey
from theodolite.surveys.unit_counts import UnitCounts, count_units
from theodolite.tables.field_groups import make_group_tables
from theodolite.tables.table_files import TableInParts
from theodolite.tables.tables import make_tables, nonfinite
from theodolite.text import format_bytes

TABLES_WITH_FORMULAS = ("layers", "tokens", "coordinates", "scales", "spectra", "jackknife")
TABLES_BY_FIELD = ("groups", "group_differences")


@dataclass
class Clock:
    """Seconds spent on each step of a run."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _last: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Record the time since the last lap under this name."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def run(
    plan: Plan,
    *,
    out: Location | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    engine: Engine | None = None,
    keep_sums: bool = False,
) -> Survey:
    """Run a plan. With `out`, checkpoints and tables are written there, and no other run may write there."""
    listener = listener or Listener()
    with (
        exclusive(out, listener.say) if out is not None else nullcontext(),
        frequent_thread_switches() if plan.device is not None else nullcontext(),
        freeze_objects(),
        LocalEngine() as local,
        ExitStack() as processes,
    ):
        made = _run(
            plan, out, resume, overwrite, listener, checkpoint_every, engine or local, keep_sums, processes
        )
    plan.finish(made)
    listener.end()
    return made


def _run(
    plan: Plan,
    out: Location | None,
    resume: bool,
    overwrite: bool,
    listener: Listener,
    checkpoint_every: float,
    engine: Engine,
    keep_sums: bool,
    processes: ExitStack,
) -> Survey:
    clock = Clock()
    place = out  # of this run's files: a finished survey in `out` is kept until the new one is complete
    if out is not None:
        finish_replacement(out)
        if resume and (out / REPLACEMENT / UNFINISHED).is_file():
            place = out / REPLACEMENT
    min_count = _choose_min_count(plan, place if resume else None)
    resuming = place is not None and resume and _can_resume(place, plan, overwrite=overwrite)
    if place is not None and resuming and (place / FACTS).is_file():
        listener.say(f"{place} already contains this survey: nothing to do")
        survey = open_survey(place)
        if keep_sums and not survey.facts.get(SUMS_KEPT, True):
            listener.warn("--keep-sums: the sums of this survey were not kept; use --overwrite to survey again")
        _tidy(place)
        return survey
    plans = (plan, *plan.others)  # one per kind of unit
    if place is not None and resuming:
        plans = _choose_text(plans, place, listener)
    closed = [len(each.source.units) for each in plans]
    worker = engine.ready(plan, listener)
    estimates = _check_memory(plans, min_count, worker, place if resuming else None, listener, processes)
    engine.start_early(plan, place)
    clock.lap("start")
    pilots = [
        replace(pilot, kept=estimate.kept)
        for pilot, estimate in zip(
            get_pilots(plans, place if resuming else None, listener, engine), estimates, strict=True
        )
    ]
    # Words get their codes in the fold only: a resumed run takes no pilot, and must give the same codes.
    for each, size in zip(plans, closed, strict=True):
        each.source.units.forget(size)
    if out is not None and not resuming:  # only now, when nothing more can be rejected
        place = claim(out, overwrite=overwrite)
    clock.lap("pilot")
    frames = [_frames(each, pilot) for each, pilot in zip(plans, pilots, strict=True)]
    plans = tuple(replace(each, contexts=_start_contexts(each, processes)) for each in plans)
    # Threads start after the fork. What a GPU need not wait for runs while it works.
    writing, ended = Lock(), Event()
    recorded = run_in_thread(partial(_record_run, plans, pilots, place, writing, ended, resuming=resuming))
    if plan.device is None:
        recorded()
    else:
        run_in_thread(partial(load_solvers, plan.device))  # for the tables: libraries are being loaded
    others = tuple(frames[1:])
    try:
        state = engine.fold(Work(plan, frames[0], place, resuming, checkpoint_every, listener, others, recorded))
    except BaseException:
        with writing:  # nothing must be written there by a run that has ended
            ended.set()
        raise
    pilots = recorded()
    clock.lap("fold")
    spare = max(estimates[0].budget - sum(estimate.bytes for estimate in estimates), 0)
    folders = survey_folders(place, plans) if place is not None else [None] * len(plans)
    parts = list(zip(plans, state.each(), pilots, estimates, folders, strict=True))
    # The survey itself is written last: its survey.json says that all are complete.
    *by_others, survey = (
        _finish(*part, spare, clock, listener, engine, keep_sums) for part in (*parts[1:], parts[0])
    )
    survey.others = {str(other.facts["units"]): other for other in by_others}
    if out is not None and place is not None:
        _tidy(place)
        finish_replacement(out)
        survey.folder = out
        for kind, other in survey.others.items():
            other.folder = out / UNITS / kind
    return survey


def _finish(
    plan: Plan,
    state: State,
    pilot: Pilot,
    estimate: memory.Estimate,
    folder: Location | None,
    spare: int,
    clock: Clock,
    listener: Listener,
    engine: Engine,
    keep_sums: bool,
) -> Survey:
    """Compute the tables of one kind of unit, and write its survey."""
    on_device = sums_on_device(state.folds)  # before they are copied to the CPU, which starts now
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    is_part = plan.identity["corpus"].get("part") is not None  # made to be merged
    sums_kept = keep_sums or is_part or folder is None or state.bytes <= MAX_SUMS
    with (
        write_in_background(state, folder, sums_kept=sums_kept) as written,
        TableInParts(folder / TOKENS) if isinstance(folder, Path) else nullcontext() as tokens,
    ):
        add = None if tokens is None else tokens.add
        survey = _make_survey(plan, state, on_device, pilot, clock, estimate, spare, listener, engine, add)
        if not sums_kept:
            survey.facts[SUMS_KEPT] = False
            listener.warn(
                f"the sums ({format_bytes(state.bytes)}) are not kept, so the survey cannot be merged; use "
                "--keep-sums to keep them"
            )
        survey.facts["times"]["seconds"] |= {name: round(spent, 3) for name, spent in engine.seconds().items()}
        if folder is not None:
            listener.say("writing the survey")
            save(survey, folder, written, tokens.finish if tokens is not None and tokens.started else None)
    if not sums_kept:
        state.drop_sums()
    return survey


def _start_contexts(plan: Plan, processes: ExitStack) -> Callable[[], pd.DataFrame] | None:
    """Return a function that reads occurrences of each unit, or that waits for them.

    If a GPU reads the corpus, another process reads them at the same time, as far as there are cores for it.
    """
    read = plan.contexts
    if read is None or plan.device is None:
        return read
    process: WorkerProcesses[None, pd.DataFrame] | None = start_workers(lambda _: read(), tasks=1)
    if process is None:
        return read
    processes.callback(process.close)

    def wait() -> pd.DataFrame:
        with closing(process):  # that takes a while
            return process(None)

    return run_in_thread(wait)


def _tidy(out: Location) -> None:
    """Delete what only an unfinished run needs, and incomplete files of killed runs."""
    (out / UNFINISHED).unlink(missing_ok=True)
    Checkpoints(out).clear()
    WorkerStates(out).clear()
    folders = [out, *((out / UNITS).iterdir() if (out / UNITS).is_dir() else ())]
    for path in [path for folder in folders for path in folder.iterdir()]:
        if path.name.startswith(".") and path.name.endswith(".part"):
            path.unlink(missing_ok=True)


def _record_run(
    plans: Sequence[Plan],
    pilots: Sequence[Pilot],
    place: Location | None,
    writing: Lock,
    ended: Event,
    *,
    resuming: bool,
) -> list[Pilot]:
    """Write what identifies the run, and its pilots; return the pilots with the sha256 of the weights.

    Weights in one large file take longer to hash than to load. If the run has `ended` by then, nothing is written.
    """
    plan = plans[0]
    identity, weights = _run_identity(plan), plan.weights_sha256()
    complete = [replace(pilot, facts=pilot.facts | {"model_sha256": weights}) for pilot in pilots]
    with writing:
        if place is None or ended.is_set():
            return complete
        if not resuming:
            filters = (plan.facts.get("corpus") or {}).get(FILTERS)
            record = {PILOT_DIGEST: digest(pilots), FILTERS: filters, TEXT: plan.contexts is not None}
            write_json(place / UNFINISHED, identity | record)
        for folder, pilot in zip(survey_folders(place, plans), complete, strict=True):
            pilot.save(folder)
    return complete


def _run_identity(plan: Plan) -> dict[str, Any]:
    """Return what identifies the run; waits for the sha256 of the weights, and adds it to identity and facts."""
    weights = plan.weights_sha256()
    for described in (plan.identity["model"], plan.facts["model"]):  # shared with plans by other kinds of units
        if described:
            described["sha256"] = weights
    return run_identity(plan.identity, [other.source.units.kind for other in plan.others])


def _frames(plan: Plan, pilot: Pilot) -> dict[int, Frame]:
    return {
        layer.index: pilot.frame(
            layer,
            populations=plan.populations,
            sample_size=plan.sample_size,
            contextuality=plan.contextuality,
            by=plan.by,
            layer_scores=plan.layer_scores,
        )
        for layer in plan.source.layers
    }


def _can_resume(out: Location, plan: Plan, *, overwrite: bool = False) -> bool:
    """Return whether the folder contains the start of this run; raise if it is the start of another.

    With `overwrite`, a finished survey with other settings is to be replaced.
    """
    recorded = find_recorded_run(out)
    if recorded is None:
        return False
    identity = _run_identity(plan)
    if recorded.finished and overwrite and differences(recorded.identity, identity):
        return False
    recorded.check(identity, (plan.facts.get("corpus") or {}).get(FILTERS))
    return True


def _choose_min_count(plan: Plan, resumed: Location | None) -> int | None:
    """Return the min_count that was asked for, or that of the run to be resumed; None: as the memory requires."""
    recorded = find_recorded_run(resumed) if plan.min_count is None and resumed is not None else None
    if recorded is None:
        return plan.min_count
    chosen = int(recorded.identity["settings"].get("min_count", 1))
    for each in (plan, *plan.others):
        each.identity["settings"]["min_count"] = chosen
    return chosen


def _choose_text(plans: tuple[Plan, ...], resumed: Location, listener: Listener) -> tuple[Plan, ...]:
    """Return the plans without the text of occurrences if the run was started, or is resumed, without it."""
    record = read_json(resumed / UNFINISHED)
    stored = record.get(TEXT, True)  # older folders do not record it
    if plans[0].contexts is None:
        if stored:
            write_json(resumed / UNFINISHED, record | {TEXT: False})
        return plans
    if stored:
        return plans
    listener.warn(
        "this run was given --no-text before, so no text is stored now. To store text, survey again into another "
        "--out"
    )
    return tuple(replace(plan, contexts=None) for plan in plans)


def _check_memory(
    plans: Sequence[Plan],
    min_count: int | None,
    worker: WorkerMemory | None,
    resumed: Location | None,
    listener: Listener,
    processes: ExitStack,
) -> list[memory.Estimate]:
    """Raise if the surveys by all kinds of units do not fit in memory together; return the estimate of each."""
    estimates: list[memory.Estimate] = []
    folders = [None] * len(plans) if resumed is None else survey_folders(resumed, plans)
    for plan, folder in zip(plans, folders, strict=True):
        estimates.append(_estimate_memory(plan, estimates, min_count, worker, folder, listener, processes))
    return estimates


def _estimate_memory(
    plan: Plan,
    others: Sequence[memory.Estimate],
    min_count: int | None,
    worker: WorkerMemory | None,
    resumed: Location | None,
    listener: Listener,
    processes: ExitStack,
) -> memory.Estimate:
    """Estimate the memory, and choose the units that have a vector; raise if the survey does not fit."""

    @cache
    def counts() -> UnitCounts:
        listener.say(f"counting units by {plan.source.units.kind}")
        return count_units(plan, processes)

    def count() -> int:
        if min_count is None:
            return len(counts())
        seen: set[int] = set()
        for _, documents in plan.read(plan.shards):
            for prepared in plan.source.prepare(documents):
                seen.update(plan.source.units_of(prepared))
        return len(seen)

    kept = None
    if min_count is not None and min_count > 1:
        kept = _recorded_units(resumed) or counts().choose(min_count)
    estimate = memory.check_memory(
        plan.source.layers,
        plan.types_bound if kept is None else len(kept),
        count,
        budget=plan.budget,
        sample_size=plan.sample_size,
        populations=len(plan.populations),
        contextuality=plan.contextuality,
        sinks=cells_to_separate(plan.populations).sinks,
        held=_held_bytes(plan),
        others=others,
        kept=kept,
        vectors=plan.vectors_bound,
        counts=counts if min_count is None else None,
        by=plan.by,
        worker=worker,
        given=plan.min_count_given and resumed is None,
        part=plan.corpus_shards is not None and len(plan.shards) < len(plan.corpus_shards),
    )
    if estimate.kept is not None:
        limits = worker is not None and plan.budget is None and worker.bytes < estimate.budget
        _report_rare_units(plan, estimate.kept, worker if limits else None, listener)
    return estimate


def _recorded_units(resumed: Location | None) -> KeptUnits | None:
    """Return which units of a resumed run have a vector; None if its pilot is missing or damaged."""
    try:
        return Pilot.load(resumed).kept if resumed is not None and (resumed / PILOT).is_file() else None
    except DamagedError:
        return None


def _report_rare_units(plan: Plan, kept: KeptUnits, worker: WorkerMemory | None, listener: Listener) -> None:
    settings, chosen = plan.identity["settings"], kept.min_count
    reason = f"--min-count {chosen}"
    if settings.get("min_count") != chosen:
        where = "memory" if worker is None else f"the memory of each worker on {worker.host}"
        settings["min_count"], reason = chosen, f"--min-count {chosen}, chosen to fit in {where}"
    unknown = int(((kept.weights == 0) & (kept.n > 1)).sum())
    if not unknown:
        if kept.vectors < len(kept):
            listener.say(
                f"{reason}: units that occur once have no vector, which is needed only for v_within_i and "
                "v_between_i in coordinates.parquet; these are estimated in part, all else is exact"
            )
        return
    sampled = int((kept.weights > 1).sum())
    beyond = (
        f" Columns that start with filtered_ or text_, CV, slope and R2 use {describe_certain_units(chosen)}."
        if chosen > FREQUENT[0]
        else ""
    )
    frequent = int((kept.n >= chosen).sum())
    whole = kept.vectors - frequent - sampled
    listener.warn(
        f"{reason}: {kept.vectors:,} of {len(kept):,} units by {plan.source.units.kind} have a vector: all "
        f"{frequent:,} with at least {chosen} occurrences, a sample of {sampled:,} rarer ones, and {whole:,} "
        "rarer ones of groups that are kept whole, such as units at the start of a window. M and V of "
        f"{unknown:,} others, which occur more than once, are null; V_W and V_B are estimated in part." + beyond
    )


def _held_bytes(plan: Plan) -> int:
    """Return the size of the states of a batch of text at all layers, if the CPU holds them to find sinks."""
    if plan.device is not None or not cells_to_separate(plan.populations).sinks:
        return 0
    tokens = max(getattr(plan.source, name, 0) for name in ("batch_tokens", "max_tokens"))
    return 4 * tokens * sum(layer.dim for layer in plan.source.layers)


def _make_survey(
    plan: Plan,
    state: State,
    on_device: dict[int, OnDevice],
    pilot: Pilot,
    clock: Clock,
    estimate: memory.Estimate,
    spare: int,
    listener: Listener,
    engine: Engine,
    on_tokens: Callable[[pd.DataFrame], None] | None,
) -> Survey:
    layers = plan.source.layers
    with_vector = None if estimate.kept is None else state.count_units_with_vector()
    tables = make_tables(
        state,
        layers,
        plan.populations,
        say=listener.say,
        device=plan.device,
        spare=spare,
        on_device=on_device,
        on_tokens=on_tokens,
    )
    if plan.by is not None:
        listener.say(f"measuring groups by {plan.by.field}")
        tables = replace(tables, **make_group_tables(state, layers, plan.populations, plan.by)._asdict())
    clock.lap("tables")
    if plan.contexts is not None:
        listener.say(f"reading a few occurrences of each unit by {plan.source.units.kind}")
        tables = replace(tables, contexts=plan.contexts())
        clock.lap("contexts")
    first = tables.layers[tables.layers["population"] == plan.populations[0]]
    for row in first[first["nonfinite"] > 0].itertuples():
        listener.warn(
            f"layer {row.layer} ({row.layer_name}): {row.nonfinite:,} NaN or infinite states were excluded"
        )
    skipped = engine.skipped()
    if skipped:
        listener.warn(skipped.describe())
        plan.facts["corpus"]["left_out"] = skipped.to_dict()
    facts = {
        "schema": SCHEMA,
        **plan.facts,
        "engine": engine.facts(),
        "units": state.units.kind,
        "populations": list(plan.populations),
        "layers": [layer.facts() for layer in layers],
        "pilot": {**pilot.facts, "sha256": pilot.sha256},
        "settings": plan.identity["settings"],
        "identity": plan.identity,
        "formulas": {
            table: formula_of_column(table)
            for table in (*TABLES_WITH_FORMULAS, *(TABLES_BY_FIELD if plan.by is not None else ()))
        },
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
            "nonfinite": nonfinite(tables.layers, plan.populations),
            "left_out": skipped.documents,
        },
        "memory": estimate.facts(),
    }
    if with_vector is not None:
        facts["counts"]["units_with_vector"] = with_vector
    if plan.by is not None:
        facts[BY] = plan.by.to_dict()
    if plan.others:
        facts[OTHER_UNITS] = [other.source.units.kind for other in plan.others]
    norms = {}
    if plan.placement is not None:
        placement, chosen = plan.placement(), {layer.index for layer in layers}
        facts["model"] = {**facts["model"], "norm_placement": placement.word}
        norms = {layer: norm for layer, norm in placement.output_norms.items() if layer in chosen}
    return Survey(facts, tables, state, pilot, norms=norms)
