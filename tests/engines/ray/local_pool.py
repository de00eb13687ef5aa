"""A worker pool in this process: workers reply in random order, die on request, and need no start-up time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

from theodolite.engines.ray.capacity import Capacity
from theodolite.engines.ray.pool import RemoteError, Reply, WorkerActor

Fate = Callable[[str, str, tuple[Any, ...]], str | None]
"""From worker, method and arguments: None, or "before" or "after": the worker dies before or after the call.

With "driver" the driver dies instead.
"""


class DriverKilledError(BaseException):
    """Ends the driver as SIGKILL would: the library catches no BaseException."""


class LocalPool:
    """Runs one call at a time, chosen at random, since a cluster replies in any order."""

    def __init__(self, workers: int, *, fate: Fate = lambda *call: None, seed: int = 0) -> None:
        self.capacity = Capacity(workers, 1, 0)
        self.fate, self.rng = fate, random.Random(seed)
        self.actors: dict[str, WorkerActor] = {}
        self.dead: dict[str, WorkerActor] = {}
        self.calls: list[tuple[str, str, tuple[Any, ...]]] = []
        self.shards: list[tuple[str, int]] = []  # in the order of folding: worker and shard

    def start(self, name: str, make: Callable[[], Any]) -> None:
        self.actors[name] = WorkerActor(make)

    def call(self, name: str, method: str, *arguments: Any) -> None:
        self.calls.append((name, method, pickle.loads(pickle.dumps(arguments))))

    def replies(self, timeout: float) -> list[Reply]:
        if not self.calls:
            return []
        name, method, arguments = self.calls.pop(self.rng.randrange(len(self.calls)))
        if method == "fold":
            self.shards.append((name, arguments[0]))
        fate = self.fate(name, method, arguments)
        if fate == "driver":
            raise DriverKilledError
        value = None if fate == "before" else self.actors[name].call(method, *arguments)
        if fate is not None:
            self.dead[name] = self.actors[name]
            return [Reply(name, method, error="the machine is gone")]
        if isinstance(value, RemoteError):
            return [Reply(name, method, error=value.text)]
        return [Reply(name, method, value)]

    def stop(self, name: str) -> None:
        self.calls = [call for call in self.calls if call[0] != name]
        del self.actors[name]

    def close(self) -> None:
        self.actors.clear()
        self.calls.clear()

    def run_tasks(self, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
        return [function(*pickle.loads(pickle.dumps(call))) for call in calls]
