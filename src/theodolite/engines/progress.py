"""How a run reports its progress, and how it is asked to stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How much has been folded."""

    share: float  # of the characters of the corpus
    positions: int
    seconds: float
    at_start: float = 0.0  # share folded by an earlier run; positions and seconds are those of this run
    unit: str = "positions"  # what is counted


class Listener:
    """Ignores everything and never stops a run; the command line has one that prints."""

    def say(self, text: str) -> None:
        """Receive one line about what is going on."""

    def warn(self, text: str) -> None:
        """Receive one line that the user must not miss."""

    def progress(self, progress: Progress) -> None:
        """Receive how much has been folded; called after every batch."""

    def stop(self) -> bool:
        """Return whether the run should write a checkpoint and stop now."""
        return False
