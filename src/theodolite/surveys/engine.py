"""What an engine is: something that takes the pilot and folds the shards of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from theodolite.statistics.frame import Frame
from theodolite.surveys.left_out import LeftOut
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import Pilot
from theodolite.surveys.plan import Plan
from theodolite.surveys.state import State
from theodolite.surveys.storage import Place


@dataclass(frozen=True)
class Work:
    """What is to be folded, and where what is saved on the way belongs."""

    plan: Plan
    frames: Mapping[int, Frame]  # by layer
    out: Place | None
    resuming: bool  # the folder holds the beginning of this very run
    every: float  # seconds between checkpoints, at the least
    listener: Listener


class Engine(Protocol):
    """Runs a plan; what comes out does not depend on which engine did."""

    def ready(self, plan: Plan, out: Place | None, memory: int, listener: Listener) -> None:
        """Refuse what cannot work, before anything is written; `memory` is what a whole state takes."""

    def pilot(self, plan: Plan, listener: Listener) -> Pilot:
        """Take the pilot."""

    def fold(self, work: Work) -> State:
        """Fold every shard that the folder does not hold yet, and return the sums of all."""

    def left_out(self) -> LeftOut:
        """Return the documents that could not be folded."""

    def facts(self) -> dict[str, Any]:
        """Return what survey.json tells of the engine."""

    def seconds(self) -> dict[str, float]:
        """Return time spent within the fold, by what on."""
