"""Checkpoints: the state as it was a minute ago, and the one before in case that is damaged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from theodolite.errors import DamagedError
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.files import checksum, read_json, verify, write_json
from theodolite.surveys.shelves import MANIFEST, BucketShelf, FolderShelf
from theodolite.surveys.state import SAMPLE, STATE, SavedState, State
from theodolite.surveys.storage import Place

FOLDER = "checkpoints"
EVERY_SECONDS = 60.0
SHARE = 0.03  # of the run's time, at the most

Loaded = TypeVar("Loaded")


class Checkpoints:
    """The last saves of a state, on a shelf beside the survey."""

    def __init__(self, place: Place, every: float = EVERY_SECONDS) -> None:
        folder = place / FOLDER
        self.shelf = BucketShelf(folder) if isinstance(folder, Bucket) else FolderShelf(folder)
        self.every = every
        self.spent = 0.0
        self._cost = 0.0
        self._last = time.monotonic()

    def due(self) -> bool:
        """Say whether a minute has passed, or longer where writing would take more than 3% of the time."""
        return time.monotonic() - self._last >= max(self.every, self._cost / SHARE)

    def postpone(self) -> None:
        """Wait again as long: the last one could not be written."""
        self._last = time.monotonic()

    def save(self, state: State) -> None:
        """Put the state on the shelf."""
        began = time.monotonic()

        def write(folder: Path) -> None:
            state.save(folder)
            write_json(folder / MANIFEST, {name: checksum(folder / name) for name in (STATE, SAMPLE)})

        self.shelf.keep(write)
        self._last = time.monotonic()
        self._cost = self._last - began
        self.spent += self._cost

    def latest(self, load: Callable[[Path], Loaded], told: Callable[[str], None]) -> Loaded | None:
        """Return what `load` makes of the newest checkpoint that is whole; None if there is none.

        Each that is not is told of. The folder that `load` is given may be gone when it is done.
        """
        for save in self.shelf.saves():
            try:
                with self.shelf.opened(save) as folder:
                    for name, expected in read_json(folder / MANIFEST).items():
                        verify(folder / name, expected)
                    return load(folder)
            except DamagedError as error:
                told(f"{error} Going back to the checkpoint before.")
                self.shelf.discard(save)
        return None

    def held(self, told: Callable[[str], None]) -> SavedState | None:
        """Return what the newest checkpoint says of itself; one in a bucket is not fetched for that."""
        if isinstance(self.shelf, FolderShelf):
            return self.latest(SavedState.open, told)
        for save in self.shelf.saves():
            try:
                return SavedState.open(Bucket(save))
            except DamagedError as error:
                told(f"{error} Going back to the checkpoint before.")
        return None

    def tidy(self) -> None:
        """Forget all but the last two; for the one who decides which of them count."""
        self.shelf.tidy()

    def clear(self) -> None:
        """Remove all of them: the survey is finished."""
        self.shelf.clear()
