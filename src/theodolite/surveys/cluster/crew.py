"""What a driver asks of its workers' machines, whatever starts and reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from theodolite.engines.ray.room import Room

Result = TypeVar("Result")


class Answer(Protocol):
    """What came of a question: a value, an error in a sentence, or a death with what is known of it."""

    @property
    def name(self) -> str:
        """The worker's."""

    @property
    def method(self) -> str:
        """What it was asked."""

    @property
    def value(self) -> Any:
        """What it answered."""

    @property
    def error(self) -> str | None:
        """Why it did not."""

    @property
    def dead(self) -> bool:
        """Say whether it will ever answer again."""


class Crew(Protocol):
    """Workers by name, each asked one thing at a time; engines.ray.pool has one on a cluster."""

    @property
    def room(self) -> Room:
        """How many workers there are at first, and what each takes."""

    def start(self, name: str, make: Callable[[], Any]) -> None:
        """Start a worker wherever there is room, now or once there is."""

    def ask(self, name: str, method: str, *arguments: Any) -> None:
        """Have a worker call one of its methods; the answer comes later."""

    def answers(self, seconds: float) -> Sequence[Answer]:
        """Return what has been answered, waiting so long for the first."""

    def stop(self, name: str) -> None:
        """End a worker at once, with what it has not saved."""

    def close(self) -> None:
        """End all of them."""

    def spread(self, function: Callable[..., Result], calls: list[tuple[Any, ...]]) -> list[Result]:
        """Call a function on many machines at once."""
