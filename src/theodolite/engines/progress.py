"""How a run reports its progress, and how it is asked to stop."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass

from theodolite import errors


@dataclass(frozen=True, slots=True)
class Progress:
    """How much has been folded."""

    share: float  # of the characters of the corpus
    positions: int
    seconds: float
    at_start: float = 0.0  # share folded by an earlier run; positions and seconds are those of this run
    unit: str = "positions"  # what is counted
    before: int = 0  # positions folded by an earlier run


class Listener:
    """Ignores progress, passes on warnings as UserWarning, and never stops a run.

    Functions called from Python use it by default. The command line has one that prints.
    """

    def say(self, text: str) -> None:
        """Receive one line about what is going on."""

    def warn(self, text: str) -> None:
        """Receive one line that the user must not miss."""
        shown = text if errors.show_flags else errors.name_arguments(text)
        warnings.warn(shown, UserWarning, stacklevel=_levels_to_caller())

    def progress(self, progress: Progress) -> None:
        """Receive how much has been folded; called after every batch."""

    def end(self) -> None:
        """Receive that a survey is complete; another may follow."""

    def stop(self) -> bool:
        """Return whether the run should write a checkpoint and stop now."""
        return False


def _levels_to_caller() -> int:
    """Return the level, counted from `warn`, of the code that called the package: a warning names its line."""
    modules = [frame.frame.f_globals.get("__name__", "") for frame in inspect.stack(context=0)]
    return 1 + max(level for level, name in enumerate(modules) if name.split(".")[0] == "theodolite")
