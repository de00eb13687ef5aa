"""The listener: where a run says what it is doing, and asks whether to stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the fold has come."""

    share: float  # of the corpus' characters
    positions: int
    seconds: float
    begun: float = 0.0  # the share that an earlier run had folded; positions and seconds are this run's
    of: str = "positions"  # what is counted


class Listener:
    """Hears nothing and never stops a run; the command line has one that prints."""

    def say(self, text: str) -> None:
        """Take in one line about what is going on."""

    def warn(self, text: str) -> None:
        """Take in one line that the user must not miss."""

    def progress(self, progress: Progress) -> None:
        """Take in how far the fold has come; called after every batch."""

    def stop(self) -> bool:
        """Say whether the run should write a checkpoint and end now."""
        return False
