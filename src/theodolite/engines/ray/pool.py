"""The pool: workers by name, each asked one thing at a time, and what they answer; a dead one answers too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from theodolite.engines.ray.connecting import library
from theodolite.engines.ray.room import Node, Room, room
from theodolite.errors import TheodoliteError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: a value, an error in a sentence, or a death with what is known of it."""

    name: str
    method: str
    value: Any = None
    error: str | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Raised:
    """An error on its way from a worker."""

    text: str


class Actor:
    """A worker's process: makes the worker, then calls what it is told to."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._worker = make()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the method's value, or what it raised: only a death is an error of Ray's."""
        try:
            return getattr(self._worker, method)(*arguments)
        except Exception as error:
            return Raised(sentence(error))


class Pool:
    """Workers on a cluster that this process is connected to."""

    def __init__(self, workers: int | None, gpus: int) -> None:
        self._ray = library()
        self.room: Room = room(self._nodes(), workers, gpus)
        self._actor = self._ray.remote(Actor)
        self._actors: dict[str, Any] = {}
        self._asked: dict[Any, tuple[str, str]] = {}

    def start(self, name: str, make: Callable[[], Any]) -> None:
        """Start a worker wherever there is room, now or once there is."""
        self._actors[name] = self._actor.options(
            num_cpus=self.room.cpus, num_gpus=self.room.gpus, scheduling_strategy="SPREAD", max_restarts=0
        ).remote(make)

    def ask(self, name: str, method: str, *arguments: Any) -> None:
        """Have a worker call one of its methods; the answer comes later."""
        self._asked[self._actors[name].call.remote(method, *arguments)] = (name, method)

    def answers(self, seconds: float) -> list[Answer]:
        """Return what has been answered, waiting so long for the first."""
        if not self._asked:
            return []
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)
        return [self._answer(reference) for reference in ready]

    def stop(self, name: str) -> None:
        """End a worker at once, with what it has not saved."""
        self._asked = {reference: asked for reference, asked in self._asked.items() if asked[0] != name}
        self._ray.kill(self._actors.pop(name))

    def close(self) -> None:
        """End all of them."""
        for name in list(self._actors):
            self.stop(name)

    def spread(self, function: Callable[..., Result], calls: list[tuple[Any, ...]]) -> list[Result]:
        """Call a function on many machines at once; nothing may be lost with one, so a dead call is made again."""
        task = self._ray.remote(function).options(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")
        try:
            return list(self._ray.get([task.remote(*call) for call in calls]))
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, TheodoliteError) else TheodoliteError(sentence(error)) from error

    def _answer(self, reference: Any) -> Answer:
        name, method = self._asked.pop(reference)
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Answer(name, method, error=sentence(error), dead=True)
        return Answer(name, method, error=value.text) if isinstance(value, Raised) else Answer(name, method, value)

    def _nodes(self) -> list[Node]:
        lent = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [Node(int(each.get("CPU", 0)), int(each.get("GPU", 0))) for each in lent]


def sentence(error: BaseException) -> str:
    """Return an error in one line: ours as it is, another with its kind; of Ray's, the last line says most."""
    if isinstance(error, TheodoliteError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if type(error).__module__.startswith("ray."):
        missing = next((line for line in lines if "No module named" in line), None)
        return missing or f"{type(error).__name__}: {lines[0]}"[:400]
    return f"{type(error).__name__}: {lines[0]}"[:400]
