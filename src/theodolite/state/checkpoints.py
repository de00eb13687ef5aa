"""Checkpoints: the last saved states of a run, each complete or absent, on disk or in a bucket."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from uuid import uuid4

from theodolite.errors import DamagedError, TheodoliteError
from theodolite.state.state import SavedState, State
from theodolite.storage.bucket import Bucket
from theodolite.storage.checksum import checksum
from theodolite.storage.file_names import UNITS
from theodolite.storage.files import read_json, verify, write_json
from theodolite.storage.location import Location

KEPT = 2  # newest saves
MANIFEST = "checkpoint.json"  # lists the files of a save with checksums, and is written last
EARLIER = "earlier.json"  # in a bucket: saves of another worker that this one continues


class FolderRotation:
    """Numbered folders, each complete before it gets its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, write: Callable[[Path], None]) -> None:
        """Write under the next number, then delete all but the newest two."""
        numbers = self._numbers()
        number = numbers[-1] + 1 if numbers else 1
        part = self.folder / f".{number:06d}.{os.getpid()}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            write(part)
            part.rename(self.folder / f"{number:06d}")
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        for old in [*numbers, number][:-KEPT]:
            shutil.rmtree(self.folder / f"{old:06d}", ignore_errors=True)

    def names(self) -> list[str]:
        """Return their names, newest first."""
        for part in self.folder.glob(".*.part"):  # from a killed run, as large as the state
            shutil.rmtree(part, ignore_errors=True)
        return [f"{number:06d}" for number in reversed(self._numbers())]

    @contextmanager
    def open(self, save: str) -> Iterator[Path]:
        """Yield the folder itself."""
        yield self.folder / save

    def discard(self, save: str) -> None:
        """Keep a damaged save: newer ones will replace it."""

    def tidy(self) -> None:
        """Do nothing: every save has deleted the oldest."""

    def clear(self) -> None:
        """Delete all."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())


class BucketRotation:
    """Saves under unique names in a bucket, each valid once its manifest exists.

    A worker only uploads and never deletes: if it was taken for dead, another one may continue from what it would
    delete. The driver deletes old saves.
    """

    def __init__(self, folder: Bucket) -> None:
        self.folder = folder

    def keep(self, write: Callable[[Path], None]) -> None:
        """Upload under the next number and a unique name, the manifest last."""
        names, _, _ = self._list_saves()
        number = max((int(name[:6]) for name in names), default=0) + 1
        with TemporaryDirectory(prefix="theodolite-") as place:
            folder = Path(place)
            write(folder)
            (self.folder / f"{number:06d}-{uuid4().hex[:12]}").put_all(
                folder, [*read_json(folder / MANIFEST), MANIFEST]
            )

    def names(self) -> list[str]:
        """Return the addresses of saves with a manifest, newest first; last those that this worker continues."""
        _, complete, continues = self._list_saves()
        own = [str(self.folder / name) for name in reversed(complete)]
        return own if len(own) >= KEPT or not continues else [*own, *self._earlier()]

    @contextmanager
    def open(self, save: str) -> Iterator[Path]:
        """Download what the manifest lists to a temporary folder."""
        remote = Bucket(save)
        with TemporaryDirectory(prefix="theodolite-") as place:
            folder = Path(place) / remote.name
            try:
                (remote / MANIFEST).get(folder / MANIFEST)
                for name in read_json(folder / MANIFEST):
                    (remote / name).get(folder / name)
            except FileNotFoundError as error:
                raise DamagedError(f"{save} is incomplete: an object is missing.") from error
            yield folder

    def discard(self, save: str) -> None:
        """Make a damaged save invalid, also for readers that do not download it."""
        (Bucket(save) / MANIFEST).unlink(missing_ok=True)

    def continue_from(self, other: BucketRotation) -> None:
        """Record which saves of another worker this one continues; later saves of the other do not count."""
        write_json(self.folder / EARLIER, {"saves": other.names()[:KEPT]})

    def copy_newest(self, other: BucketRotation) -> None:
        """Copy the newest save of another worker."""
        for save in map(Bucket, other.names()[:1]):
            names = [name for name in save.below() if name != MANIFEST]
            for name in [*names, MANIFEST]:
                (save / name).copy(self.folder / save.name / name)

    def tidy(self) -> None:
        """Delete all but the newest two, and older uploads that never got a manifest."""
        try:
            names, complete, continues = self._list_saves()
            if len(complete) < KEPT:
                return
            old = [str(self.folder / name) for name in names if name < complete[-KEPT]]
            for save in [*old, *(self._earlier() if continues else [])]:
                self.discard(save)  # first, so that a partly deleted save is not valid
                Bucket(save).rmtree()
            if continues:
                (self.folder / EARLIER).unlink(missing_ok=True)
        except TheodoliteError:
            return  # retried after the next save

    def clear(self) -> None:
        """Delete all."""
        self.folder.rmtree()

    def _list_saves(self) -> tuple[list[str], list[str], bool]:
        """Return all saves and the complete ones, oldest first, and whether another worker is continued."""
        objects = self.folder.below()
        names = sorted({name.partition("/")[0] for name in objects if "/" in name})
        complete = [name for name in names if f"{name}/{MANIFEST}" in objects]
        return names, complete, EARLIER in objects

    def _earlier(self) -> list[str]:
        listed = read_json(self.folder / EARLIER)["saves"]
        return [save for save in listed if (Bucket(save) / MANIFEST).is_file()]


FOLDER = "checkpoints"
EVERY_SECONDS = 60.0
SHARE = 0.03  # of the run's time, at most
BYTES_PER_SECOND = 2**30
"""How fast the first checkpoint is assumed to be written; the others take as long as the one before."""

Loaded = TypeVar("Loaded")


class Checkpoints:
    """The newest saved states of a run, in a folder of the survey."""

    def __init__(
        self, place: Location, every: float = EVERY_SECONDS, recorded: Callable[[], object] = lambda: None
    ) -> None:
        folder = place / FOLDER
        self._recorded = recorded  # waits until the folder of the survey says of which run this is
        self.saves = BucketRotation(folder) if isinstance(folder, Bucket) else FolderRotation(folder)
        self.every = every
        self.spent = 0.0
        self._cost: float | None = None
        self._last = time.monotonic()

    def due(self, state: State) -> bool:
        """Return whether a minute has passed, or longer if saving would take more than 3% of the time."""
        passed = time.monotonic() - self._last
        if passed < self.every:
            return False
        cost = state.bytes_to_save / BYTES_PER_SECOND if self._cost is None else self._cost
        return passed >= cost / SHARE

    def postpone(self) -> None:
        """Wait for another interval: the last save failed."""
        self._last = time.monotonic()

    def save(self, state: State) -> None:
        """Save the state."""
        self._recorded()
        began = time.monotonic()

        def write(folder: Path) -> None:
            for place, part in ((folder, state), *((folder / UNITS / o.units.kind, o) for o in state.others)):
                place.mkdir(parents=True, exist_ok=True)
                part.save(place)
            files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.safetensors"))
            write_json(folder / MANIFEST, {name: checksum(folder / name) for name in files})

        self.saves.keep(write)
        self._last = time.monotonic()
        self._cost = self._last - began
        self.spent += self._cost

    def latest(self, load: Callable[[Path], Loaded], warn: Callable[[str], None]) -> Loaded | None:
        """Return what `load` returns for the newest complete checkpoint; None if there is none.

        Damaged ones are reported. The folder given to `load` may be deleted afterwards.
        """
        for save in self.saves.names():
            try:
                with self.saves.open(save) as folder:
                    for name, expected in read_json(folder / MANIFEST).items():
                        verify(folder / name, expected)
                    return load(folder)
            except DamagedError as error:
                warn(f"{error} Using the checkpoint before it.")
                self.saves.discard(save)
        return None

    def held(self, warn: Callable[[str], None]) -> SavedState | None:
        """Return the metadata of the newest checkpoint; one in a bucket is not downloaded."""
        if isinstance(self.saves, FolderRotation):
            return self.latest(SavedState.open, warn)
        for save in self.saves.names():
            try:
                return SavedState.open(Bucket(save))
            except DamagedError as error:
                warn(f"{error} Using the checkpoint before it.")
        return None

    def tidy(self) -> None:
        """Delete all but the newest two."""
        self.saves.tidy()

    def clear(self) -> None:
        """Delete all: the survey is complete."""
        self.saves.clear()
