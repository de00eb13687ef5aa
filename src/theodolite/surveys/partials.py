"""Partial states: what workers have saved, each in a folder of its own that one worker at a time may write.

A folder counts only while it carries its mark, and gets a new name before another worker may go on in it. So a
worker that was taken for dead, and is not, writes where nobody reads. On disk the folder is renamed. In a bucket
the driver writes down, under the new name, which saves it begins with, and takes the mark from the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from theodolite.errors import TheodoliteError
from theodolite.surveys.adding import add_saved
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.checkpoints import FOLDER as CHECKPOINTS
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.shelves import BucketShelf
from theodolite.surveys.state import SavedState, State
from theodolite.surveys.storage import Place, remove

FOLDER = "workers"
MARK = "holds-shards"


class Partials:
    """Numbered folders beside the survey, each with the checkpoints of a worker."""

    def __init__(self, out: Place) -> None:
        self.folder = out / FOLDER

    def names(self) -> list[str]:
        """Return the folders that count."""
        return [name for name in self._all() if (self.folder / name / MARK).is_file()]

    def path(self, name: str) -> Place:
        """Return where the worker of this name saves."""
        return self.folder / name

    def fresh(self) -> str:
        """Make an empty folder of a new name."""
        name = self._next()
        self._mark(name)
        return name

    def fence(self, name: str) -> str:
        """Give a folder a new name: whoever wrote under the old one can change nothing any more."""
        new = self._next()
        if isinstance(self.folder, Path):
            (self.folder / name).rename(self.folder / new)
        else:
            _shelf(self.folder / new).begin_with(_shelf(self.folder / name))
            self._mark(new)
            (self.folder / name / MARK).unlink(missing_ok=True)
        return new

    def adopt(self, checkpoints: Place) -> str:
        """Take over the checkpoints of a run in one process."""
        name = self._next()
        if isinstance(checkpoints, Path):
            self._mark(name)
            checkpoints.rename(str(self.folder / name / CHECKPOINTS))
        else:
            _shelf(self.folder / name).take_copy(BucketShelf(checkpoints))
            self._mark(name)
            checkpoints.rmtree()
        return name

    def remove(self, name: str) -> None:
        """Forget a folder whose shards another one holds."""
        (self.folder / name / MARK).unlink(missing_ok=True)  # first: half removed it must not count
        remove(self.folder / name, missing_ok=True)

    def saved(self, name: str, told: Callable[[str], None]) -> SavedState | None:
        """Return the newest state in the folder that is whole; None if nothing was saved."""
        return Checkpoints(self.folder / name).held(told)

    def add_to(self, state: State, name: str, saved: SavedState) -> None:
        """Take into a state what a folder was seen to hold; raise if that cannot be read any more."""

        def add(folder: Path) -> bool:
            found = SavedState.open(folder)
            if found.shards == saved.shards:
                add_saved(state, found)
            return found.shards == saved.shards

        if not Checkpoints(self.folder / name).latest(add, lambda text: None):
            raise TheodoliteError(
                f"{len(saved.shards)} shards that worker {name} saved cannot be read again; the same command with "
                "--resume folds them once more."
            )

    def tidy(self, name: str) -> None:
        """Forget what a worker saved before its last two saves."""
        Checkpoints(self.folder / name).tidy()

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
        remove(self.folder, missing_ok=True)

    def _mark(self, name: str) -> None:
        """Have a folder count from now on."""
        if isinstance(self.folder, Path):
            (self.folder / name).mkdir(parents=True)
        (self.folder / name / MARK).touch()

    def _all(self) -> list[str]:
        if isinstance(self.folder, Path) and not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.name[:6].isdigit())

    def _next(self) -> str:
        """Return a name that nobody has; in a bucket, where what was removed leaves no trace, nor ever had."""
        number = f"{max((int(name[:6]) for name in self._all()), default=0) + 1:06d}"
        return number if isinstance(self.folder, Path) else f"{number}-{uuid4().hex[:12]}"


def _shelf(worker: Place) -> BucketShelf:
    assert isinstance(worker, Bucket)
    return BucketShelf(worker / CHECKPOINTS)
