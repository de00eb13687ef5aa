"""The Ray engine: workers on many machines make the same survey as one process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from theodolite.engines.engine import Plan, Work, WorkerMemory
from theodolite.engines.progress import Listener
from theodolite.engines.ray.capacity import find_least_memory
from theodolite.engines.ray.driver import Driver
from theodolite.engines.ray.merge_states import merge_states
from theodolite.engines.ray.pool import Reply, WorkerPool
from theodolite.engines.ray.worker import MachineInfo, Worker
from theodolite.environment import versions
from theodolite.errors import InputError, TheodoliteError
from theodolite.state.checkpoints import FOLDER as CHECKPOINTS
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.pilot import Pilot
from theodolite.state.skipped import Skipped
from theodolite.state.state import SavedState, State
from theodolite.state.worker_states import WorkerStates
from theodolite.storage.bucket import Bucket
from theodolite.storage.location import Location, nearest_existing
from theodolite.text import pluralize

START_TIMEOUT = 300.0  # seconds for workers to start; a machine may have to boot first
FILE_TIMEOUT = 10.0  # seconds until a file that one machine wrote is visible to another
ACTIONS = {"inspect": "start", "load": "load the model", "pilot": "take the pilot"}


class RayEngine:
    """The engine of a pool of workers. Enter it before the model is loaded: workers start meanwhile."""

    def __init__(self, out: Location, pool: WorkerPool) -> None:
        self._out, self._pool = out, pool
        self._names: list[str] = []
        self._hosts: Counter[str] = Counter()
        self._skipped = Skipped()
        self._facts: dict[str, Any] = {"name": "ray"}
        self._seconds: dict[str, float] = {}
        self._probes: dict[str, Location] = {}

    def __enter__(self) -> RayEngine:
        self._names = [f"w{number}" for number in range(1, self._pool.capacity.workers + 1)]
        for name in self._names:
            self._pool.start(name, Worker)
            self._request_inspection(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()
        with suppress(TheodoliteError):  # a bucket that does not answer at the moment
            for probe in self._probes.values():
                probe.unlink(missing_ok=True)

    def ready(self, plan: Plan, listener: Listener) -> WorkerMemory:
        """Wait for all workers, check their machines and the shared folder, and load the model on each."""
        if plan.remake is None:
            raise InputError("--engine ray requires a model to survey, and there is none: use --engine local.")
        capacity = self._pool.capacity
        cores, gpus = pluralize(capacity.cpus, "core"), pluralize(capacity.gpus, "GPU")
        listener.say(f"waiting for {pluralize(capacity.workers, 'worker')} with {cores} and {gpus} each")
        machines: dict[str, MachineInfo] = self._collect("inspect")
        for name, machine in machines.items():
            self._check_machine(name, machine)
        self._hosts = Counter(machine.host for machine in machines.values())
        started = time.monotonic()
        workers, hosts = pluralize(capacity.workers, "worker"), pluralize(len(self._hosts), "machine")
        listener.say(f"{workers} on {hosts}: loading the model")
        for name in self._names:
            self._pool.call(name, "load", plan.remake)
        free: dict[str, int] = self._collect("load")
        self._seconds["load"] = time.monotonic() - started
        least = find_least_memory([(machine.host, free[name]) for name, machine in machines.items()])
        self._facts |= {
            "workers": capacity.workers,
            "machines": len(self._hosts),
            "gpus_per_worker": capacity.gpus,
            "memory_per_worker": least.bytes,
        }
        return least

    def start_early(self, plan: Plan, out: Location | None) -> None:
        """Do nothing: workers read text when a shard is assigned to them."""

    def pilot(self, plan: Plan, listener: Listener) -> list[Pilot]:
        """Let one worker take the pilot for all."""
        self._pool.call(self._names[0], "pilot", plan.pilot_documents)
        return [self._collect("pilot", 1)[self._names[0]]]

    def fold(self, work: Work) -> State:
        """Run the workers until every shard is saved, then merge their states."""
        assert work.out is not None
        work.recorded()
        if work.resuming:
            _adopt_local_checkpoint(work.out)
            self._skipped = Skipped.load(WorkerStates(work.out).folder)
        started = time.monotonic()
        driver = Driver(work, self._pool, self._skipped, self._request_inspection, self._check_machine)
        driver.run(self._names)
        self._pool.close()
        folded = time.monotonic()
        states = driver.states.disjoint(work.listener.warn)
        _check_complete(work.plan, states, self._skipped)
        work.listener.say(f"merging the states of {pluralize(len(states), 'worker')}")
        state = merge_states(work.out, list(states), work.frames, work.plan.source.units, self._pool.run_tasks)
        _check_complete(work.plan, {"merged": state}, self._skipped)
        self._facts |= {"workers_lost": driver.deaths}
        self._seconds |= {
            "shards": folded - started,
            "merge": time.monotonic() - folded,
        } | {f"{name}_of_workers": seconds for name, seconds in driver.seconds.items()}
        return state

    def skipped(self) -> Skipped:
        """Return the skipped documents, and the shards at which all workers died."""
        return self._skipped

    def facts(self) -> dict[str, Any]:
        """Return the numbers of workers and machines."""
        return self._facts

    def seconds(self) -> dict[str, float]:
        """Return the time of each step; for workers, the sum over all of them."""
        return self._seconds

    def _request_inspection(self, name: str) -> None:
        """Write a file beside the survey's folder; ask a worker whether it sees the file, and for its machine."""
        place = self._out if isinstance(self._out, Bucket) else nearest_existing(self._out.absolute())
        probe = self._probes[name] = place / f".{self._out.name}.{uuid4().hex}.part"
        probe.touch()
        self._pool.call(name, "inspect", probe, Path.cwd(), FILE_TIMEOUT)

    def _check_machine(self, name: str, machine: MachineInfo) -> None:
        """Raise if a worker's machine has other versions, does not see the folder, or lacks a usable GPU."""
        probe = self._probes.pop(name)
        probe.unlink(missing_ok=True)
        check_versions(machine)
        if not machine.sees_output:
            raise InputError(
                f"--out: {machine.host} does not see what this machine writes to {probe.parent}, so the folder is "
                "a different one there. Give a folder that all machines of the cluster share."
            )
        if self._pool.capacity.gpus and not machine.gpus:
            raise InputError(
                f"--gpus-per-worker 1: {machine.host} has a GPU that its torch cannot use. Install a torch with "
                "CUDA there, or use --gpus-per-worker 0."
            )

    def _collect(self, method: str, count: int | None = None) -> dict[str, Any]:
        """Return the values of all workers by name. Any error ends the run, since nothing has been folded."""
        expected, deadline = count or len(self._names), time.monotonic() + START_TIMEOUT
        values: dict[str, Any] = {}
        while len(values) < expected:
            for reply in self._pool.replies(0.5):
                values[reply.worker] = _value(reply)
            if time.monotonic() > deadline and method == "inspect":
                raise TheodoliteError(
                    f"--workers {expected}: only {len(values)} of them started within {START_TIMEOUT:.0f} s. Is "
                    "the cluster busy with other work? Run `ray status` to see."
                )
        return values


def check_versions(machine: MachineInfo) -> None:
    """Raise for a machine with other versions of the packages that the numbers depend on."""
    mine = versions()
    different = [
        f"{name} {version} instead of {mine[name]}"
        for name, version in machine.versions.items()
        if mine[name] != version
    ]
    if different:
        raise InputError(
            f"{machine.host} has other versions than this machine ({'; '.join(different)}). Install the "
            "same on all machines."
        )


def _value(reply: Reply) -> Any:
    if reply.error is None:
        return reply.value
    if "No module named" in reply.error:
        raise TheodoliteError(
            f"A package is missing on a machine of the cluster ({reply.error}). Install the same theodolite[ray] "
            "on all machines."
        )
    if reply.error.startswith("--"):  # an option of the user that cannot work on that machine
        raise InputError(reply.error)
    raise TheodoliteError(f"A worker could not {ACTIONS.get(reply.method, reply.method)}: {reply.error}")


def _adopt_local_checkpoint(out: Location) -> None:
    """Continue from the checkpoint of a run in one process, if it was written between two shards."""
    saved = Checkpoints(out).held(lambda text: None)
    if saved is None:
        return
    if saved.cursor:
        raise InputError(
            f"--resume: the run in {out} was started with --engine local and stopped within a shard. Resume it "
            "with --engine local."
        )
    WorkerStates(out).adopt(out / CHECKPOINTS)


def _check_complete(plan: Plan, states: Mapping[str, SavedState | State], skipped: Skipped) -> None:
    folded = {shard.index for saved in states.values() for shard in saved.shards}
    missing = set(plan.shards) - folded - skipped.shards.keys()
    if missing:
        raise TheodoliteError(
            f"{pluralize(len(missing), 'saved shard')} cannot be read back. Run the same command with --resume to "
            "fold them again."
        )
    if not folded:
        raise TheodoliteError(f"No shard could be folded. {skipped.describe()}")
