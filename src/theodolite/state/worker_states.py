"""States of workers: checkpoints of each worker, in a folder that only one worker at a time writes.

A folder is valid only while it has its mark, and gets a new name before another worker continues in it. A worker
that was wrongly taken for dead therefore writes where nobody reads. On disk the folder is renamed. In a bucket the
driver records, under the new name, which saves it continues, and deletes the mark of the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from theodolite.errors import TheodoliteError
from theodolite.state.checkpoints import FOLDER as CHECKPOINTS
from theodolite.state.checkpoints import BucketRotation, Checkpoints
from theodolite.state.state import SavedState, State, add_saved_state
from theodolite.storage.bucket import Bucket
from theodolite.storage.location import Location, remove

FOLDER = "workers"
MARK = "holds-shards"


class WorkerStates:
    """Numbered folders in the survey folder, each with the checkpoints of one worker."""

    def __init__(self, out: Location) -> None:
        self.folder = out / FOLDER

    def names(self) -> list[str]:
        """Return the names of the valid folders."""
        return [name for name in self._all() if (self.folder / name / MARK).is_file()]

    def path(self, name: str) -> Location:
        """Return the folder of a worker."""
        return self.folder / name

    def create(self) -> str:
        """Create an empty folder and return its name."""
        name = self._next()
        self._mark(name)
        return name

    def fence(self, name: str) -> str:
        """Give a folder a new name, so that a worker that still writes under the old one changes nothing."""
        new = self._next()
        if isinstance(self.folder, Path):
            (self.folder / name).rename(self.folder / new)
        else:
            _checkpoints_of(self.folder / new).continue_from(_checkpoints_of(self.folder / name))
            self._mark(new)
            (self.folder / name / MARK).unlink(missing_ok=True)
        return new

    def adopt(self, checkpoints: Location) -> str:
        """Continue from the checkpoints of a local run."""
        name = self._next()
        if isinstance(checkpoints, Path):
            self._mark(name)
            checkpoints.rename(str(self.folder / name / CHECKPOINTS))
        else:
            _checkpoints_of(self.folder / name).copy_newest(BucketRotation(checkpoints))
            self._mark(name)
            checkpoints.rmtree()
        return name

    def remove(self, name: str) -> None:
        """Delete a folder whose shards are in another one."""
        (self.folder / name / MARK).unlink(missing_ok=True)  # first, so that a partly deleted folder is not valid
        remove(self.folder / name, missing_ok=True)

    def saved(self, name: str, warn: Callable[[str], None]) -> SavedState | None:
        """Return the newest complete state in the folder; None if nothing was saved."""
        return Checkpoints(self.folder / name).held(warn)

    def add_to(self, state: State, name: str, saved: SavedState) -> None:
        """Add the saved state of a folder to a state; raise if it can no longer be read."""

        def add(folder: Path) -> bool:
            found = SavedState.open(folder)
            if found.shards == saved.shards:
                add_saved_state(state, found)
            return found.shards == saved.shards

        if not Checkpoints(self.folder / name).latest(add, lambda text: None):
            raise TheodoliteError(
                f"{len(saved.shards)} shards saved by worker {name} can no longer be read. Run the same command "
                "with --resume to fold them again."
            )

    def tidy(self, name: str) -> None:
        """Delete all but the newest two saves of a worker."""
        Checkpoints(self.folder / name).tidy()

    def disjoint(self, warn: Callable[[str], None]) -> dict[str, SavedState]:
        """Return saved states without common shards, and delete the others.

        A run that was killed while merging leaves both the merged state and its parts; the larger one is kept.
        """
        found = {name: self.saved(name, warn) for name in self.names()}
        states = {name: saved for name, saved in found.items() if saved is not None}
        kept: dict[str, SavedState] = {}
        for name, saved in sorted(states.items(), key=lambda item: (-len(item[1].shards), item[0])):
            if any(set(saved.shards) & set(other.shards) for other in kept.values()):
                self.remove(name)
            else:
                kept[name] = saved
        return dict(sorted(kept.items()))

    def clear(self) -> None:
        """Delete all: the survey is complete."""
        remove(self.folder, missing_ok=True)

    def _mark(self, name: str) -> None:
        """Make a folder valid."""
        if isinstance(self.folder, Path):
            (self.folder / name).mkdir(parents=True)
        (self.folder / name / MARK).touch()

    def _all(self) -> list[str]:
        if isinstance(self.folder, Path) and not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.name[:6].isdigit())

    def _next(self) -> str:
        """Return an unused name; in a bucket, where deleted names leave no trace, one that was never used."""
        number = f"{max((int(name[:6]) for name in self._all()), default=0) + 1:06d}"
        return number if isinstance(self.folder, Path) else f"{number}-{uuid4().hex[:12]}"


def _checkpoints_of(worker: Location) -> BucketRotation:
    assert isinstance(worker, Bucket)
    return BucketRotation(worker / CHECKPOINTS)
