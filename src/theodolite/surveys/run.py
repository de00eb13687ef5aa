"""A run: from a plan to a finished survey, resumed where it was interrupted."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial

from theodolite.engines.engine import Engine, Plan, Work
from theodolite.engines.gpu import CellSums, sums_on_device, write_in_background
from theodolite.engines.local import LocalEngine
from theodolite.engines.progress import Listener
from theodolite.engines.threads import frequent_thread_switches, load_solvers
from theodolite.environment import versions
from theodolite.errors import InputError
from theodolite.measures.formula import formula_of_column
from theodolite.sources.prefetch import run_in_thread
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot
from theodolite.state.state import State
from theodolite.state.worker_states import WorkerStates
from theodolite.storage.file_names import FACTS, PILOT, UNFINISHED
from theodolite.storage.files import read_json, write_json
from theodolite.storage.location import Location
from theodolite.storage.lock import exclusive
from theodolite.surveys import memory
from theodolite.surveys.folder import SCHEMA, claim, open_survey, save
from theodolite.surveys.provenance import differences
from theodolite.surveys.survey import Survey
from theodolite.tables.tables import make_tables, nonfinite
from theodolite.text import pluralize

TABLES_WITH_FORMULAS = (
    "layers",
    "tokens",
    "coordinates",
    "scales",
    "spectra",
)  # tables whose columns have formulas


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
) -> Survey:
    """Run a plan. With `out`, checkpoints and tables are written there, and no other run may write there."""
    listener = listener or Listener()
    with (
        exclusive(out, listener.say) if out is not None else nullcontext(),
        frequent_thread_switches() if plan.device is not None else nullcontext(),
        LocalEngine() as local,
    ):
        made = _run(plan, out, resume, overwrite, listener, checkpoint_every, engine or local)
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
) -> Survey:
    clock = Clock()
    resuming = out is not None and resume and _can_resume(out, plan)
    if out is not None and resuming and (out / FACTS).is_file():
        listener.say(f"{out} already contains this survey: nothing to do")
        survey = open_survey(out)
        _tidy(out)
        return survey
    closed = len(plan.source.units)
    estimate = _check_memory(plan)
    engine.ready(plan, out, estimate.bytes_within, listener)
    clock.lap("start")
    pilot = _pilot(plan, out if resuming else None, listener, engine)
    # Words get their codes in the fold only: a resumed run takes no pilot, and must give the same codes.
    plan.source.units.forget(closed)
    if out is not None and not resuming:  # only now, when nothing more can be rejected
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
    if plan.device is not None:
        run_in_thread(
            partial(load_solvers, plan.device)
        )  # while the GPU works, so that the tables do not wait for it
    state = engine.fold(Work(plan, frames, out, resuming, checkpoint_every, listener))
    clock.lap("fold")
    on_device = sums_on_device(state.folds)  # before they are copied to the CPU, which starts now
    with write_in_background(state, out) as written:
        survey = _make_survey(plan, state, on_device, pilot, clock, estimate, listener, engine)
        survey.facts["times"]["seconds"] |= {name: round(spent, 3) for name, spent in engine.seconds().items()}
        if out is not None:
            listener.say("writing the survey")
            save(survey, out, written)
    if out is not None:
        _tidy(out)
    return survey


def _tidy(out: Location) -> None:
    """Delete what only an unfinished run needs, and incomplete files of killed runs."""
    (out / UNFINISHED).unlink(missing_ok=True)
    Checkpoints(out).clear()
    WorkerStates(out).clear()
    for part in [path for path in out.iterdir() if path.name.startswith(".") and path.name.endswith(".part")]:
        part.unlink(missing_ok=True)


def _pilot(plan: Plan, resumed: Location | None, listener: Listener, engine: Engine) -> Pilot:
    """Load the pilot of this run or of another survey, or take one."""
    if resumed is not None and (resumed / PILOT).is_file():
        return Pilot.load(resumed)
    if plan.pilot_from is not None:
        pilot = Pilot.load(plan.pilot_from)
        pilot.check(plan.source.layers, plan.model_sha256)
        return pilot
    listener.say(
        f"reading {pluralize(len(plan.pilot_documents), 'document')} for the pilot (centres of the layers)"
    )
    return engine.pilot(plan, listener)


def _can_resume(out: Location, plan: Plan) -> bool:
    """Return whether the folder contains the start of this run; raise if it is the start of another."""
    for name in (UNFINISHED, FACTS):
        if (out / name).is_file():
            found = read_json(out / name)
            lines = differences(found["identity"] if name == FACTS else found, plan.identity)
            if lines:
                listed = "\n  ".join(lines)
                raise InputError(f"--resume: the run in {out} has other settings:\n  {listed}")
            return True
    return False


def _check_memory(plan: Plan) -> memory.Estimate:
    def count() -> int:
        seen: set[int] = set()
        for _, documents in plan.read(plan.shards):
            for prepared in plan.source.prepare(documents):
                seen.update(plan.source.units_of(prepared))
        return len(seen)

    return memory.check_memory(
        plan.source.layers,
        plan.types_bound,
        count,
        budget=plan.budget,
        sample_size=plan.sample_size,
        populations=len(plan.populations),
        contextuality=plan.contextuality,
    )


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
