"""Partial states: what workers have saved, each in a folder of its own that one worker at a time may write.

A folder counts only while it carries its mark, and is renamed before another worker may go on in it. So a worker
that was taken for dead, and is not, writes where nobody reads.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.state import SavedState

FOLDER = "workers"
MARK = "holds-shards"


class Partials:
    """Numbered folders beside the survey, each with the checkpoints of a worker."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER

    def names(self) -> list[str]:
        """Return the folders that count."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{MARK}"))

    def path(self, name: str) -> Path:
        """Return where the worker of this name saves."""
        return self.folder / name

    def fresh(self) -> str:
        """Make an empty folder of a new name."""
        name = self._next()
        path = self.folder / name
        path.mkdir(parents=True)
        (path / MARK).touch()
        return name

    def fence(self, name: str) -> str:
        """Give a folder a new name: whoever wrote under the old one can change nothing any more."""
        new = self._next()
        (self.folder / name).rename(self.folder / new)
        return new

    def adopt(self, checkpoints: Path) -> str:
        """Take over the checkpoints of a run in one process."""
        name = self.fresh()
        checkpoints.rename(self.folder / name / checkpoints.name)
        return name

    def remove(self, name: str) -> None:
        """Forget a folder whose shards another one holds."""
        (self.folder / name / MARK).unlink(missing_ok=True)  # first: half removed it must not count
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def saved(self, name: str, told: Callable[[str], None]) -> SavedState | None:
        """Return the newest state in the folder that is whole; None if nothing was saved."""
        return Checkpoints(self.folder / name).latest(SavedState.open, told)

    def disjoint(self, told: Callable[[str], None]) -> dict[str, SavedState]:
        """Return the saved states of which no two hold the same shard, and remove the rest.

        A run killed while merging leaves what was merged beside what it was merged from; the larger one counts.
        """
        found = {name: self.saved(name, told) for name in self.names()}
        states = {name: saved for name, saved in found.items() if saved is not None}
        kept: dict[str, SavedState] = {}
        for name, saved in sorted(states.items(), key=lambda item: (-len(item[1].shards), item[0])):
            if any(set(saved.shards) & set(other.shards) for other in kept.values()):
                self.remove(name)
            else:
                kept[name] = saved
        return dict(sorted(kept.items()))

    def clear(self) -> None:
        """Remove all of them: the survey is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _next(self) -> str:
        numbers = [int(path.name) for path in self.folder.glob("*") if path.name.isdigit()]
        return f"{max(numbers, default=0) + 1:06d}"
