"""The engine of many machines: a crew of workers, the same survey out of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from theodolite.errors import InputError, TheodoliteError
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.checkpoints import FOLDER as CHECKPOINTS
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.cluster.agreement import check_memory, check_versions
from theodolite.surveys.cluster.crew import Answer, Crew
from theodolite.surveys.cluster.drive import Drive
from theodolite.surveys.cluster.merging import merged
from theodolite.surveys.cluster.worker import Hello, Worker
from theodolite.surveys.early import standing
from theodolite.surveys.engine import Work
from theodolite.surveys.left_out import LeftOut
from theodolite.surveys.listener import Listener
from theodolite.surveys.partials import Partials
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.plan import Plan
from theodolite.surveys.state import SavedState, State
from theodolite.surveys.storage import Place

STARTING = 300.0  # seconds that workers may take to start; a machine may have to wake up first
DOING = {"hello": "begin", "load": "load the model", "pilot": "take the pilot"}
SEEING = 10.0  # seconds until a file that one machine wrote is seen by another


class Cluster:
    """The engine of a crew. Enter it before the model is loaded: workers start meanwhile."""

    def __init__(self, out: Place, crew: Crew) -> None:
        self._out, self._crew = out, crew
        self._names: list[str] = []
        self._hosts: Counter[str] = Counter()
        self._left_out = LeftOut()
        self._facts: dict[str, Any] = {"name": "ray"}
        self._seconds: dict[str, float] = {}
        self._probes: dict[str, Place] = {}

    def __enter__(self) -> Cluster:
        self._names = [f"w{number}" for number in range(1, self._crew.room.workers + 1)]
        for name in self._names:
            self._crew.start(name, Worker)
            self._greet(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crew.close()
        with suppress(TheodoliteError):  # a bucket that does not answer now
            for probe in self._probes.values():
                probe.unlink(missing_ok=True)

    def ready(self, plan: Plan, out: Place | None, memory: int, listener: Listener) -> None:
        """Hear every worker, compare their machines and folders, and have them load the model."""
        if plan.remake is None:
            raise InputError("--engine ray surveys models; this has none, so use --engine local.")
        room = self._crew.room
        listener.say(f"waiting for {room.workers} workers with {room.cpus} cores and {room.gpus} GPUs each")
        heard: dict[str, Hello] = self._all("hello")
        for name, hello in heard.items():
            self._check(name, hello)
        self._hosts = Counter(hello.host for hello in heard.values())
        check_memory(list(heard.values()), memory)
        began = time.monotonic()
        listener.say(f"{_many(room.workers, 'worker')} on {_many(len(self._hosts), 'machine')}: loading the model")
        for name in self._names:
            self._crew.ask(name, "load", plan.remake)
        self._all("load")
        self._seconds["load"] = time.monotonic() - began
        self._facts |= {"workers": room.workers, "machines": len(self._hosts), "gpus_per_worker": room.gpus}

    def pilot(self, plan: Plan, listener: Listener) -> Pilot:
        """Have one worker take the pilot for all."""
        self._crew.ask(self._names[0], "pilot", plan.pilot_documents, plan.model_sha256)
        pilot: Pilot = self._all("pilot", 1)[self._names[0]]
        return pilot

    def fold(self, work: Work) -> State:
        """Drive the workers until every shard is saved, then merge what they saved."""
        assert work.out is not None
        if work.resuming:
            _take_over(work.out)
            self._left_out = LeftOut.load(Partials(work.out).folder)
        began = time.monotonic()
        drive = Drive(work, self._crew, self._left_out, self._greet, self._check)
        drive.run(self._names)
        self._crew.close()
        folded = time.monotonic()
        states = drive.partials.disjoint(work.listener.warn)
        _check_all_held(work.plan, states, self._left_out)
        work.listener.say(f"merging what {len(states)} workers saved")
        state = merged(work.out, list(states), work.frames, work.plan.source.units, self._crew.spread)
        _check_all_held(work.plan, {"merged": state}, self._left_out)
        self._facts |= {"workers_lost": drive.deaths}
        self._seconds |= {
            "shards": folded - began,
            "merge": time.monotonic() - folded,
        } | {f"{name}_of_workers": spent for name, spent in drive.spent.items()}
        return state

    def left_out(self) -> LeftOut:
        """Return the documents that raised, and the shards that no worker survived."""
        return self._left_out

    def facts(self) -> dict[str, Any]:
        """Return how many did it."""
        return self._facts

    def seconds(self) -> dict[str, float]:
        """Return how long the parts took; of workers, all their seconds together."""
        return self._seconds

    def _greet(self, name: str) -> None:
        """Leave a file where the survey will be, and ask a worker whether it sees it and what its machine is."""
        place = self._out if isinstance(self._out, Bucket) else standing(self._out.absolute())
        probe = self._probes[name] = place / f".{self._out.name}.{uuid4().hex}.part"
        probe.touch()
        self._crew.ask(name, "hello", probe, Path.cwd(), SEEING)

    def _check(self, name: str, hello: Hello) -> None:
        """Refuse a worker whose machine is not like this one, or does not see the folder."""
        probe = self._probes.pop(name)
        probe.unlink(missing_ok=True)
        check_versions(hello)
        if not hello.sees:
            raise InputError(
                f"--out: {hello.host} does not see what this machine writes to {probe.parent}, so it is another "
                "folder there; give one that every machine of the cluster sees."
            )
        if self._crew.room.gpus and not hello.gpus:
            raise InputError(
                f"--gpus-per-worker 1: {hello.host} lends a GPU that its torch cannot use; install a torch with "
                "CUDA there, or survey with --gpus-per-worker 0."
            )

    def _all(self, method: str, count: int | None = None) -> dict[str, Any]:
        """Return what all workers answer; the first that cannot ends the run, since nothing has begun."""
        wanted, until = count or len(self._names), time.monotonic() + STARTING
        heard: dict[str, Any] = {}
        while len(heard) < wanted:
            for answer in self._crew.answers(0.5):
                heard[answer.name] = _value(answer)
            if time.monotonic() > until and method == "hello":
                raise TheodoliteError(
                    f"--workers {wanted}: only {len(heard)} of them started within {STARTING:.0f} s; is the "
                    "cluster busy with other work? `ray status` tells."
                )
        return heard


def _value(answer: Answer) -> Any:
    if answer.error is None:
        return answer.value
    if "No module named" in answer.error:
        raise TheodoliteError(
            f"A machine of the cluster lacks what a worker needs ({answer.error}); install the same "
            "theodolite[ray] on all of them."
        )
    if answer.error.startswith("--"):  # what the user gave does not do there
        raise InputError(answer.error)
    raise TheodoliteError(f"A worker could not {DOING.get(answer.method, answer.method)}: {answer.error}")


def _take_over(out: Place) -> None:
    """Take up what a run in one process saved, if that was between two shards."""
    saved = Checkpoints(out).held(lambda text: None)
    if saved is None:
        return
    if saved.cursor:
        raise InputError(
            f"--resume: the run in {out} was begun with --engine local and stopped within a shard; use that."
        )
    Partials(out).adopt(out / CHECKPOINTS)


def _check_all_held(plan: Plan, states: Mapping[str, SavedState | State], left_out: LeftOut) -> None:
    held = {shard.index for saved in states.values() for shard in saved.shards}
    missing = set(plan.shards) - held - left_out.shards.keys()
    if missing:
        raise TheodoliteError(
            f"{len(missing)} shards that were saved cannot be read again; the same command with --resume folds "
            "them once more."
        )
    if not held:
        raise TheodoliteError(f"No shard could be folded. {left_out.told()}")


def _many(count: int, what: str) -> str:
    """Return a number of things.

    >>> _many(1, "worker"), _many(2, "machine")
    ('1 worker', '2 machines')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"
