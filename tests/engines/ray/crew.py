"""A crew in this process: workers that answer in any order, die when they are told to, and cost no start."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

from theodolite.engines.ray.pool import Actor, Answer, Raised
from theodolite.engines.ray.room import Room

Fate = Callable[[str, str, tuple[Any, ...]], str | None]
"""From worker, method and arguments: None to live, "before" or "after" to die before or after the call."""


class DriverKilledError(BaseException):
    """Ends the driver as a kill would: no code of ours catches it."""


class HereCrew:
    """Runs one question at a time, drawn at random, as a cluster would answer in no order."""

    def __init__(self, workers: int, *, fate: Fate = lambda *asked: None, seed: int = 0) -> None:
        self.room = Room(workers, 1, 0)
        self.fate, self.rng = fate, random.Random(seed)
        self.actors: dict[str, Actor] = {}
        self.dead: dict[str, Actor] = {}
        self.asked: list[tuple[str, str, tuple[Any, ...]]] = []
        self.shards: list[tuple[str, int]] = []  # given, by whom folded

    def start(self, name: str, make: Callable[[], Any]) -> None:
        self.actors[name] = Actor(make)

    def ask(self, name: str, method: str, *arguments: Any) -> None:
        self.asked.append((name, method, pickle.loads(pickle.dumps(arguments))))

    def answers(self, seconds: float) -> list[Answer]:
        if not self.asked:
            return []
        name, method, arguments = self.asked.pop(self.rng.randrange(len(self.asked)))
        if method == "fold":
            self.shards.append((name, arguments[0]))
        fate = self.fate(name, method, arguments)
        if fate == "driver":
            raise DriverKilledError
        value = None if fate == "before" else self.actors[name].call(method, *arguments)
        if fate is not None:
            self.dead[name] = self.actors[name]
            return [Answer(name, method, error="the machine is gone", dead=True)]
        if isinstance(value, Raised):
            return [Answer(name, method, error=value.text)]
        return [Answer(name, method, value)]

    def stop(self, name: str) -> None:
        self.asked = [asked for asked in self.asked if asked[0] != name]
        del self.actors[name]

    def close(self) -> None:
        self.actors.clear()
        self.asked.clear()

    def spread(self, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
        return [function(*pickle.loads(pickle.dumps(call))) for call in calls]
