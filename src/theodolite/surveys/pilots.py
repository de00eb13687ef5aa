"""The pilots of a run, one per kind of unit: taken, or loaded from its folder or from another survey."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.engines.engine import Engine, Plan
from theodolite.engines.progress import Listener
from theodolite.errors import DamagedError
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot
from theodolite.state.worker_states import WorkerStates
from theodolite.storage.file_names import PILOT, UNFINISHED, UNITS
from theodolite.storage.files import read_json
from theodolite.storage.location import Location
from theodolite.surveys.resume import PILOT_DIGEST
from theodolite.text import pluralize


def survey_folders(place: Location, plans: Sequence[Plan]) -> list[Location]:
    """Return the folder of the survey by each kind of unit, of which the first is that of the run."""
    return [place, *(place / UNITS / plan.source.units.kind for plan in plans[1:])]


def get_pilots(plans: Sequence[Plan], resumed: Location | None, listener: Listener, engine: Engine) -> list[Pilot]:
    """Load the pilots of this run or of another survey, or take them; a damaged one of this run is taken again."""
    if resumed is not None:
        folders = survey_folders(resumed, plans)
        try:
            if all((folder / PILOT).is_file() for folder in folders):
                return [Pilot.load(folder) for folder in folders]
        except DamagedError as error:
            listener.warn(f"{error} It is taken again, from the same documents.")
    pilots = _new_pilots(plans, listener, engine)
    if resumed is not None and _has_sums(resumed) and _pilot_digest(resumed) != digest(pilots):
        raise DamagedError(
            f"{resumed / PILOT} is damaged or missing, and the pilot taken again differs, so what was saved "
            "cannot be continued. Start again with --overwrite."
        )
    return pilots


def digest(pilots: Sequence[Pilot]) -> str:
    """Return the digests of all pilots."""
    return " ".join(pilot.sha256 for pilot in pilots)


def _has_sums(out: Location) -> bool:
    """Return whether sums were saved, which are about the centres of the pilot."""
    return bool(Checkpoints(out).saves.names() or WorkerStates(out).names())


def _pilot_digest(out: Location) -> str | None:
    return read_json(out / UNFINISHED).get(PILOT_DIGEST)


def _new_pilots(plans: Sequence[Plan], listener: Listener, engine: Engine) -> list[Pilot]:
    """Load the pilot of another survey, that of the same kind of unit if it has several, or take one."""
    plan = plans[0]
    if plan.pilot_from is not None:
        pilots = []
        for each in plans:
            of_kind = plan.pilot_from / UNITS / each.source.units.kind
            pilots.append(Pilot.load(of_kind if (of_kind / PILOT).is_file() else plan.pilot_from))
            pilots[-1].check(plan.source.layers, plan.weights_sha256())
        return pilots
    read = "vectors" if plan.facts["model"] is None else pluralize(len(plan.pilot_documents), "document")
    listener.say(f"reading {read} for the pilot (centres of the layers)")
    return engine.pilot(plan, listener)
