"""The run: from a source and its shards to a finished survey, taken up again where it was interrupted."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial

from theodolite.engines.ahead import beside
from theodolite.engines.turns import short_turns
from theodolite.errors import InputError
from theodolite.measures.formula import formula_of_column
from theodolite.naming import several
from theodolite.surveys import memory
from theodolite.surveys.alone import alone
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.engine import Engine, Work
from theodolite.surveys.files import read_json, write_json
from theodolite.surveys.folder import FACTS, SCHEMA, UNFINISHED, claim, open_survey, save
from theodolite.surveys.here import Here
from theodolite.surveys.identity import differences
from theodolite.surveys.listener import Listener
from theodolite.surveys.partials import Partials
from theodolite.surveys.pilot import FILE as PILOT_FILE
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.plan import Plan
from theodolite.surveys.side_by_side import made_ready
from theodolite.surveys.state import State
from theodolite.surveys.storage import Place
from theodolite.surveys.survey import Survey
from theodolite.surveys.tables import make_tables, nonfinite
from theodolite.surveys.there import Cells, left_there
from theodolite.surveys.writing import begun

FORMULATED = ("layers", "tokens", "coordinates", "scales", "spectra")  # tables whose columns have formulas


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
    out: Place | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
    engine: Engine | None = None,
) -> Survey:
    """Carry a plan out. With `out`, checkpoints and the finished folder go there, and no other run's meanwhile."""
    listener = listener or Listener()
    with (
        alone(out, listener.say) if out is not None else nullcontext(),
        short_turns() if plan.device is not None else nullcontext(),
        Here() as here,
    ):
        made = _run(plan, out, resume, overwrite, listener, checkpoint_every, engine or here)
    plan.finally_(made)
    return made


def _run(
    plan: Plan,
    out: Place | None,
    resume: bool,
    overwrite: bool,
    listener: Listener,
    checkpoint_every: float,
    engine: Engine,
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
    engine.ready(plan, out, estimate["bytes"], listener)
    clock.lap("start")
    pilot = _pilot(plan, out if resuming else None, listener, engine)
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
    if plan.device is not None:
        beside(partial(made_ready, plan.device))  # while the GPU works, so that the tables need not wait for it
    state = engine.fold(Work(plan, frames, out, resuming, checkpoint_every, listener))
    clock.lap("fold")
    left = left_there(state.folds)  # before they are brought here, which begins now
    with begun(state, out) as written:
        survey = _finished(plan, state, left, pilot, clock, estimate, listener, engine)
        survey.facts["times"]["seconds"] |= {name: round(spent, 3) for name, spent in engine.seconds().items()}
        if out is not None:
            listener.say("writing the survey")
            save(survey, out, written)
    if out is not None:
        _tidy(out)
    return survey


def _tidy(out: Place) -> None:
    """Remove what only an unfinished run needs, and what killed ones left half written."""
    (out / UNFINISHED).unlink(missing_ok=True)
    Checkpoints(out).clear()
    Partials(out).clear()
    for part in [path for path in out.iterdir() if path.name.startswith(".") and path.name.endswith(".part")]:
        part.unlink(missing_ok=True)


def _pilot(plan: Plan, resumed: Place | None, listener: Listener, engine: Engine) -> Pilot:
    """Read the pilot of this run or of another survey, or take one."""
    if resumed is not None and (resumed / PILOT_FILE).is_file():
        return Pilot.load(resumed)
    if plan.pilot_from is not None:
        pilot = Pilot.load(plan.pilot_from)
        pilot.check(plan.source.layers, plan.model_sha256)
        return pilot
    listener.say(f"pilot: {several(len(plan.pilot_documents), 'document')}")
    return engine.pilot(plan, listener)


def _can_resume(out: Place, plan: Plan) -> bool:
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


def _finished(
    plan: Plan,
    state: State,
    left: dict[int, Cells],
    pilot: Pilot,
    clock: Clock,
    estimate: dict[str, int],
    listener: Listener,
    engine: Engine,
) -> Survey:
    layers = plan.source.layers
    spare = max(estimate["budget"] - estimate["bytes"], 0)
    tables = make_tables(
        state, layers, plan.populations, told=listener.say, device=plan.device, spare=spare, left=left
    )
    clock.lap("tables")
    whole = tables.layers[tables.layers["population"] == plan.populations[0]]
    lost = whole[whole["nonfinite"] > 0]
    for row in lost.itertuples():
        listener.warn(
            f"layer {row.layer} ({row.layer_name}): {row.nonfinite:,} NaN or infinite states were left out"
        )
    left_out = engine.left_out()
    if left_out:
        listener.warn(left_out.told())
        plan.facts["corpus"]["left_out"] = left_out.listed()
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
            "nonfinite": nonfinite(tables.layers, plan.populations),
            "left_out": left_out.documents,
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
