"""A run: from a plan to a finished survey, resumed where it was interrupted."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial

from theodolite.engines.engine import Engine, Plan, Work
from theodolite.engines.gpu import CellSums, sums_on_device, write_in_background
from theodolite.engines.local import LocalEngine
from theodolite.engines.progress import Listener
from theodolite.engines.threads import frequent_thread_switches, load_solvers
from theodolite.environment import versions
from theodolite.errors import DamagedError
from theodolite.measures.decomposition import FREQUENT
from theodolite.measures.formula import formula_of_column
from theodolite.sources.prefetch import run_in_thread
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot
from theodolite.state.state import State
from theodolite.state.worker_states import WorkerStates
from theodolite.statistics.cells import cells_to_separate
from theodolite.statistics.rare_units import KeptUnits
from theodolite.storage.file_names import FACTS, PILOT, REPLACEMENT, UNFINISHED
from theodolite.storage.files import read_json, write_json
from theodolite.storage.location import Location
from theodolite.storage.lock import exclusive
from theodolite.surveys import memory
from theodolite.surveys.folder import MAX_SUMS, SCHEMA, SUMS_KEPT, claim, finish_replacement, open_survey, save
from theodolite.surveys.provenance import differences
from theodolite.surveys.resume import FILTERS, PILOT_DIGEST, find_recorded_run
from theodolite.surveys.survey import Survey
from theodolite.surveys.unit_counts import UnitCounts, count_units
from theodolite.tables.tables import make_tables, nonfinite
from theodolite.text import format_bytes, pluralize

TABLES_WITH_FORMULAS = ("layers", "tokens", "coordinates", "scales", "spectra", "jackknife")


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
        LocalEngine() as local,
    ):
        made = _run(plan, out, resume, overwrite, listener, checkpoint_every, engine or local, keep_sums)
    plan.finish(made)
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
        _tidy(place)
        return survey
    closed = len(plan.source.units)
    estimate = _check_memory(plan, min_count, place if resuming else None, listener)
    engine.ready(plan, place, estimate.bytes_within, listener)
    clock.lap("start")
    pilot = replace(_pilot(plan, place if resuming else None, listener, engine), kept=estimate.kept)
    # Words get their codes in the fold only: a resumed run takes no pilot, and must give the same codes.
    plan.source.units.forget(closed)
    if out is not None and not resuming:  # only now, when nothing more can be rejected
        place = claim(out, overwrite=overwrite)
        filters = (plan.facts.get("corpus") or {}).get(FILTERS)
        write_json(place / UNFINISHED, plan.identity | {PILOT_DIGEST: pilot.sha256, FILTERS: filters})
    if place is not None:
        pilot.save(place)
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
    if plan.device is not None:
        run_in_thread(
            partial(load_solvers, plan.device)
        )  # while the GPU works, so that the tables do not wait for it
    state = engine.fold(Work(plan, frames, place, resuming, checkpoint_every, listener))
    clock.lap("fold")
    on_device = sums_on_device(state.folds)  # before they are copied to the CPU, which starts now
    sums_kept = keep_sums or state.bytes <= MAX_SUMS
    with write_in_background(state, place, sums_kept=sums_kept) as written:
        survey = _make_survey(plan, state, on_device, pilot, clock, estimate, listener, engine)
        if not sums_kept:
            survey.facts[SUMS_KEPT] = False
            if place is not None:
                listener.warn(
                    f"the sums ({format_bytes(state.bytes)}) are not kept, so the survey cannot be merged. Use "
                    "--keep-sums to keep them"
                )
        survey.facts["times"]["seconds"] |= {name: round(spent, 3) for name, spent in engine.seconds().items()}
        if place is not None:
            listener.say("writing the survey")
            save(survey, place, written)
    if out is not None and place is not None:
        _tidy(place)
        finish_replacement(out)
        survey.folder = out
    return survey


def _tidy(out: Location) -> None:
    """Delete what only an unfinished run needs, and incomplete files of killed runs."""
    (out / UNFINISHED).unlink(missing_ok=True)
    Checkpoints(out).clear()
    WorkerStates(out).clear()
    for part in [path for path in out.iterdir() if path.name.startswith(".") and path.name.endswith(".part")]:
        part.unlink(missing_ok=True)


def _pilot(plan: Plan, resumed: Location | None, listener: Listener, engine: Engine) -> Pilot:
    """Load the pilot of this run or of another survey, or take one; a damaged one of this run is taken again."""
    if resumed is not None and (resumed / PILOT).is_file():
        try:
            return Pilot.load(resumed)
        except DamagedError as error:
            listener.warn(f"{error} It is taken again, from the same documents.")
    pilot = _new_pilot(plan, listener, engine)
    if resumed is not None and _has_sums(resumed) and _pilot_digest(resumed) != pilot.sha256:
        raise DamagedError(
            f"{resumed / PILOT} is damaged or missing, and the pilot taken again differs, so what was saved "
            "cannot be continued. Start again with --overwrite."
        )
    return pilot


def _has_sums(out: Location) -> bool:
    """Return whether sums were saved, which are about the centres of the pilot."""
    return bool(Checkpoints(out).saves.names() or WorkerStates(out).names())


def _pilot_digest(out: Location) -> str | None:
    return read_json(out / UNFINISHED).get(PILOT_DIGEST)


def _new_pilot(plan: Plan, listener: Listener, engine: Engine) -> Pilot:
    """Load the pilot of another survey, or take one."""
    if plan.pilot_from is not None:
        pilot = Pilot.load(plan.pilot_from)
        pilot.check(plan.source.layers, plan.model_sha256)
        return pilot
    listener.say(
        f"reading {pluralize(len(plan.pilot_documents), 'document')} for the pilot (centres of the layers)"
    )
    return engine.pilot(plan, listener)


def _can_resume(out: Location, plan: Plan, *, overwrite: bool = False) -> bool:
    """Return whether the folder contains the start of this run; raise if it is the start of another.

    With `overwrite`, a finished survey with other settings is to be replaced.
    """
    recorded = find_recorded_run(out)
    if recorded is None:
        return False
    if recorded.finished and overwrite and differences(recorded.identity, plan.identity):
        return False
    recorded.check(plan.identity, (plan.facts.get("corpus") or {}).get(FILTERS))
    return True


def _choose_min_count(plan: Plan, resumed: Location | None) -> int | None:
    """Return the min_count that was asked for, or that of the run to be resumed; None: as the memory requires."""
    recorded = find_recorded_run(resumed) if plan.min_count is None and resumed is not None else None
    if recorded is None:
        return plan.min_count
    chosen = int(recorded.identity["settings"].get("min_count", 1))
    plan.identity["settings"]["min_count"] = chosen
    return chosen


def _check_memory(
    plan: Plan, min_count: int | None, resumed: Location | None, listener: Listener
) -> memory.Estimate:
    """Estimate the memory, and choose the units that have a vector; raise if the survey does not fit."""

    @cache
    def counts() -> UnitCounts:
        listener.say("counting units")
        return count_units(plan)

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
        held=_held_bytes(plan),
        kept=kept,
        counts=counts if min_count is None else None,
    )
    if estimate.kept is not None:
        _report_rare_units(plan, estimate.kept, listener)
    return estimate


def _recorded_units(resumed: Location | None) -> KeptUnits | None:
    """Return which units of a resumed run have a vector; None if its pilot is missing or damaged."""
    try:
        return Pilot.load(resumed).kept if resumed is not None and (resumed / PILOT).is_file() else None
    except DamagedError:
        return None


def _report_rare_units(plan: Plan, kept: KeptUnits, listener: Listener) -> None:
    settings, chosen = plan.identity["settings"], kept.min_count
    reason = f"--min-count {chosen}"
    if settings.get("min_count") != chosen:
        settings["min_count"], reason = chosen, f"--min-count {chosen}, chosen to fit in memory"
    sampled = int((kept.weights > 1).sum())
    beyond = (
        f" The sets filtered_ and text_, CV, slope and R2 are over n >= {chosen}." if chosen > FREQUENT[0] else ""
    )
    listener.warn(
        f"{reason}: {kept.vectors:,} of {len(kept):,} units have a vector, {sampled:,} of them as a sample of "
        f"those with fewer than {chosen} occurrences. M and V of the others are null; V_W and V_B are estimated "
        "in part." + beyond
    )


def _held_bytes(plan: Plan) -> int:
    """Return the size of the states of a batch of text at all layers, if the CPU holds them to find sinks."""
    if plan.device is not None or not cells_to_separate(plan.populations).sinks:
        return 0
    return 4 * getattr(plan.source, "batch_tokens", 0) * sum(layer.dim for layer in plan.source.layers)


def _make_survey(
    plan: Plan,
    state: State,
    on_device: dict[int, CellSums],
    pilot: Pilot,
    clock: Clock,
    estimate: memory.Estimate,
    listener: Listener,
    engine: Engine,
) -> Survey:
    layers = plan.source.layers
    spare = max(estimate.budget - estimate.bytes, 0)
    tables = make_tables(
        state, layers, plan.populations, say=listener.say, device=plan.device, spare=spare, on_device=on_device
    )
    clock.lap("tables")
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
        "layers": [asdict(layer) for layer in layers],
        "pilot": {**pilot.facts, "sha256": pilot.sha256},
        "settings": plan.identity["settings"],
        "identity": plan.identity,
        "formulas": {table: formula_of_column(table) for table in TABLES_WITH_FORMULAS},
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
    return Survey(facts, tables, state, pilot, norms=plan.norms)
