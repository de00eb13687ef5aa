"""The cache: folders that are made once, by one process, and are whole or not there."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from theodolite.errors import TheodoliteError

RECORD = "entry.json"
# Raise this when the same download would be unpacked differently, so that older folders are made anew.
LAYOUT = 2

Progress = Callable[[str], None]
Facts = Mapping[str, int | str]
# Fills the first folder with what is to be kept; may use the second, which is thrown away.
Make = Callable[[Path, Path], Facts]


def silent(line: str) -> None:
    """Say nothing; the progress of those who asked for none."""


def cache_root() -> Path:
    """Return the folder of everything fetched: `$THEODOLITE_CACHE`, else the user's cache folder."""
    override = os.environ.get("THEODOLITE_CACHE")
    return Path(override).expanduser() if override else Path(user_cache_dir("theodolite"))


def is_whole(folder: Path, sha256: str) -> bool:
    """Tell whether the folder was made from the file of that digest, and every file of it is there in full."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text("utf-8"))
        return (
            record["sha256"] == sha256
            and record["layout"] == LAYOUT
            and all((folder / name).stat().st_size == size for name, size in record["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def make_once(folder: Path, sha256: str, facts: Facts, make: Make, progress: Progress = silent) -> Path:
    """Return the folder, made first if it is not whole; processes that ask at once wait for one of them.

    A folder already whole is returned without touching a lock, so a cache may lie on a read-only disk.
    """
    if is_whole(folder, sha256):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _held(folder, progress):
            if not is_whole(folder, sha256):
                _sweep(folder)
                _make(folder, {**facts, "sha256": sha256}, make)
    except OSError as error:
        raise TheodoliteError(
            f"Could not unpack into {folder}: {error}. "
            "Set THEODOLITE_CACHE to a folder that can be written and has room."
        ) from error
    return folder


def _make(folder: Path, facts: Facts, make: Make) -> None:
    """Make the folder beside its final name and move it into place; leave nothing else behind."""
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        made = work / "made"
        made.mkdir()
        found = make(made, work)
        _write_record(made, {**facts, **found})
        if folder.exists():  # cut short in some other way, for example while it was copied
            folder.rename(work / "broken")
        made.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_record(made: Path, facts: Facts) -> None:
    """Write what the folder is made of, last, with the size of every file."""
    files = {path.relative_to(made).as_posix(): path.stat().st_size for path in made.rglob("*") if path.is_file()}
    record = {**facts, "layout": LAYOUT, "files": dict(sorted(files.items()))}
    (made / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")


@contextmanager
def _held(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of this one folder; the system frees it when a process dies."""
    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(f"waiting for another process that is making {folder.name}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _sweep(folder: Path) -> None:
    """Remove what killed processes left half made; the caller holds the lock, so nobody is at work there."""
    for left in folder.parent.glob(f".{folder.name}.*.part"):
        shutil.rmtree(left, ignore_errors=True)
