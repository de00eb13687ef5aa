"""The first shard, begun before its turn: while a GPU is busy with the pilot, the processor has nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from theodolite.engines.ahead import beside
from theodolite.surveys.plan import Documents, Plan

Made = tuple[Documents, Sequence[Any]]


class Begun:
    """Prepares the first shard of a plan in a thread, where a GPU will wait for it.

    Not where units are open: those get their codes in the order of the fold, and the pilot's come first.
    """

    def __init__(self, plan: Plan) -> None:
        self._waiting: dict[int, Callable[[], Made]] = {}
        if plan.device is not None and plan.shards and not plan.source.units.open:
            self._waiting[plan.shards[0]] = beside(lambda: _first(plan))

    def __call__(self, shard: int, documents: Documents) -> Sequence[Any] | None:
        """Return the batches of these very documents if they were begun, and hold on to nothing; else None."""
        waiting = self._waiting.pop(shard, None)
        if waiting is None:
            return None
        begun, batches = waiting()
        return batches if begun == documents else None


def _first(plan: Plan) -> Made:
    _, documents = next(iter(plan.read(plan.shards[:1])))
    return documents, plan.source.prepare(documents)
