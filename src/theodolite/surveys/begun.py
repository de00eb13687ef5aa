"""Shards begun before their turn: while a GPU is busy with the pilot, the processor has nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.engines.preparing import Preparing, waited_for
from theodolite.surveys.left_out import LeftOut
from theodolite.surveys.plan import Plan


class Begun:
    """All shards of a plan, whole, being prepared from now on where a GPU will wait for them.

    Not where units are open: those get their codes in the order of the fold, and the pilot's come first.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._preparing: Preparing | None = None
        if plan.device is not None and waited_for(plan.source):
            self._preparing = _prepared(plan, plan.shards, LeftOut())

    def taken(self, shards: Sequence[int], left_out: LeftOut) -> Preparing:
        """Return the preparing of these shards without what is left out: what was begun, if it is the same."""
        if self._preparing is None or list(shards) != list(self._plan.shards) or left_out:
            self.close()
            self._preparing = _prepared(self._plan, shards, left_out)
        return self._preparing

    def close(self) -> None:
        """Stop preparing, whether or not anything was taken."""
        if self._preparing is not None:
            self._preparing.close()


def _prepared(plan: Plan, shards: Sequence[int], left_out: LeftOut) -> Preparing:
    documents = ((index, left_out.without(index, texts)) for index, texts in plan.read(shards))
    return Preparing(plan.source, documents, len(shards))
