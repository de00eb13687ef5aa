"""Worker processes on a Ray cluster: start them by name, call their methods, and collect the replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from theodolite.engines.ray.capacity import Capacity, Node, fit_workers
from theodolite.engines.ray.connection import import_ray
from theodolite.errors import TheodoliteError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a call: a value, or a line that says what was raised or how the worker died."""

    worker: str
    method: str
    value: Any = None
    error: str | None = None


class WorkerPool(Protocol):
    """Workers by name, each of which handles one call at a time."""

    @property
    def capacity(self) -> Capacity:
        """The number of workers at the start, and the cores and GPUs of each."""

    def start(self, name: str, make: Callable[[], Any]) -> None:
        """Start a worker on any machine with free cores, as soon as there is one."""

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of a worker; the reply comes later."""

    def replies(self, timeout: float) -> Sequence[Reply]:
        """Return all replies that have arrived, waiting up to `timeout` seconds for the first."""

    def stop(self, name: str) -> None:
        """Kill a worker; what it has not saved is lost."""

    def close(self) -> None:
        """Kill all workers."""

    def run_tasks(self, function: Callable[..., Result], calls: list[tuple[Any, ...]]) -> list[Result]:
        """Call a function once for each tuple of arguments, on many machines at once."""


class RayPool:
    """The workers of a Ray cluster to which this process is connected."""

    def __init__(self, workers: int | None, gpus: int) -> None:
        self._ray = import_ray()
        self.capacity: Capacity = fit_workers(self._nodes(), workers, gpus)
        self._actor = self._ray.remote(WorkerActor)
        self._actors: dict[str, Any] = {}
        self._calls: dict[Any, tuple[str, str]] = {}  # worker and method by Ray's reference to the result

    def start(self, name: str, make: Callable[[], Any]) -> None:
        """Start a worker on any machine with free cores, as soon as there is one."""
        self._actors[name] = self._actor.options(
            num_cpus=self.capacity.cpus,
            num_gpus=self.capacity.gpus,
            scheduling_strategy="SPREAD",
            max_restarts=0,
        ).remote(make)

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of a worker; the reply comes later."""
        self._calls[self._actors[name].call.remote(method, *arguments)] = (name, method)

    def replies(self, timeout: float) -> list[Reply]:
        """Return all replies that have arrived, waiting up to `timeout` seconds for the first."""
        if not self._calls:
            return []
        ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=timeout)
        if ready:
            ready, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        return [self._reply(reference) for reference in ready]

    def stop(self, name: str) -> None:
        """Kill a worker; what it has not saved is lost."""
        self._calls = {reference: call for reference, call in self._calls.items() if call[0] != name}
        self._ray.kill(self._actors.pop(name))

    def close(self) -> None:
        """Kill all workers."""
        for name in list(self._actors):
            self.stop(name)

    def run_tasks(self, function: Callable[..., Result], calls: list[tuple[Any, ...]]) -> list[Result]:
        """Call a function once for each tuple of arguments; a call whose process dies is repeated."""
        task = self._ray.remote(function).options(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")
        try:
            return list(self._ray.get([task.remote(*call) for call in calls]))
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, TheodoliteError) else TheodoliteError(describe(error)) from error

    def _reply(self, reference: Any) -> Reply:
        name, method = self._calls.pop(reference)
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Reply(name, method, error=describe(error))
        if isinstance(value, RemoteError):
            return Reply(name, method, error=value.text)
        return Reply(name, method, value)

    def _nodes(self) -> list[Node]:
        offered = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [Node(int(each.get("CPU", 0)), int(each.get("GPU", 0))) for each in offered]


class WorkerActor:
    """The process of a worker: creates the worker, then calls its methods."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._worker = make()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the method's value, or a RemoteError: Ray itself raises only if the process dies."""
        try:
            return getattr(self._worker, method)(*arguments)
        except Exception as error:
            return RemoteError(describe(error))


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An error that a worker's method raised, as text."""

    text: str


def describe(error: BaseException) -> str:
    """Return an error in one line: Theodolite's own as it is, others with their type."""
    if isinstance(error, TheodoliteError):
        return error.message
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if type(error).__module__.startswith("ray."):
        missing = next((line for line in lines if "No module named" in line), None)
        return missing or f"{type(error).__name__}: {lines[0]}"[:400]
    return f"{type(error).__name__}: {lines[0]}"[:400]
