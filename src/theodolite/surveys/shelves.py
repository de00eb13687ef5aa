"""Shelves: the last few saves of a state, each whole or not there, on disk or in a bucket."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from theodolite.errors import DamagedError, TheodoliteError
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.files import read_json, write_json

KEPT = 2
MANIFEST = "checkpoint.json"  # names the files of a save, and is written last
EARLIER = "earlier.json"  # in a bucket: saves of another shelf that this one begins with


class FolderShelf:
    """Numbered folders, each whole before it gets its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, write: Callable[[Path], None]) -> None:
        """Write under the next number, then forget all but the last two."""
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

    def saves(self) -> list[str]:
        """Return their names, newest first."""
        for part in self.folder.glob(".*.part"):  # what a killed run was writing, as large as the state
            shutil.rmtree(part, ignore_errors=True)
        return [f"{number:06d}" for number in reversed(self._numbers())]

    @contextmanager
    def opened(self, save: str) -> Iterator[Path]:
        """Give the folder itself."""
        yield self.folder / save

    def discard(self, save: str) -> None:
        """Leave a damaged save where it is: newer ones push it off."""

    def tidy(self) -> None:
        """There is nothing to do: each save has forgotten the oldest."""

    def clear(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())


class BucketShelf:
    """Saves under names that no other writer takes, each counting once its manifest is there.

    A worker puts and never deletes: it may have been taken for dead, and what it would delete is then what
    another goes on from. The driver deletes what is old.
    """

    def __init__(self, folder: Bucket) -> None:
        self.folder = folder

    def keep(self, write: Callable[[Path], None]) -> None:
        """Upload under the next number and a name of its own, the manifest last."""
        names, _, _ = self._listed()
        number = max((int(name[:6]) for name in names), default=0) + 1
        with TemporaryDirectory(prefix="theodolite-") as place:
            folder = Path(place)
            write(folder)
            files = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
            (self.folder / f"{number:06d}-{uuid4().hex[:12]}").put_all(folder, [*files, MANIFEST])

    def saves(self) -> list[str]:
        """Return the addresses of those with a manifest, newest first; at the end what this shelf began with."""
        _, whole, began_with = self._listed()
        own = [str(self.folder / name) for name in reversed(whole)]
        return own if len(own) >= KEPT or not began_with else [*own, *self._earlier()]

    @contextmanager
    def opened(self, save: str) -> Iterator[Path]:
        """Fetch what the manifest names to a folder that is removed afterwards."""
        there = Bucket(save)
        with TemporaryDirectory(prefix="theodolite-") as place:
            folder = Path(place) / there.name
            try:
                (there / MANIFEST).get(folder / MANIFEST)
                for name in read_json(folder / MANIFEST):
                    (there / name).get(folder / name)
            except FileNotFoundError as error:
                raise DamagedError(f"{save}: an object of it is missing.") from error
            yield folder

    def discard(self, save: str) -> None:
        """Have a damaged save count no more, for whoever looks without fetching it."""
        (Bucket(save) / MANIFEST).unlink(missing_ok=True)

    def begin_with(self, other: BucketShelf) -> None:
        """Write down which saves of another shelf count as this one's; what is put there later does not."""
        write_json(self.folder / EARLIER, {"saves": other.saves()[:KEPT]})

    def take_copy(self, other: BucketShelf) -> None:
        """Copy the newest save of another shelf to this one."""
        for save in map(Bucket, other.saves()[:1]):
            names = [name for name in save.below() if name != MANIFEST]
            for name in [*names, MANIFEST]:
                (save / name).copy(self.folder / save.name / name)

    def tidy(self) -> None:
        """Delete all but the last two, and what was uploaded before them and never got a manifest."""
        try:
            names, whole, began_with = self._listed()
            if len(whole) < KEPT:
                return
            old = [str(self.folder / name) for name in names if name < whole[-KEPT]]
            for save in [*old, *(self._earlier() if began_with else [])]:
                self.discard(save)  # first: half deleted it must not count
                Bucket(save).rmtree()
            if began_with:
                (self.folder / EARLIER).unlink(missing_ok=True)
        except TheodoliteError:
            return  # the next time

    def clear(self) -> None:
        """Delete all of them."""
        self.folder.rmtree()

    def _listed(self) -> tuple[list[str], list[str], bool]:
        """Return what was begun and what is whole, oldest first, and whether others count too; from one look."""
        objects = self.folder.below()
        names = sorted({name.partition("/")[0] for name in objects if "/" in name})
        whole = [name for name in names if f"{name}/{MANIFEST}" in objects]
        return names, whole, EARLIER in objects

    def _earlier(self) -> list[str]:
        listed = read_json(self.folder / EARLIER)["saves"]
        return [save for save in listed if (Bucket(save) / MANIFEST).is_file()]
