"""The cache: folders that one process builds once; a folder is complete or does not exist."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from theodolite.errors import TheodoliteError
from theodolite.storage.checksum import checksum

RECORD, CHECKSUMS = "entry.json", "checksums"
# Increase this when the same download would be unpacked differently, so that older folders are built again.
LAYOUT = 2

Progress = Callable[[str], None]
Facts = Mapping[str, int | str]
# Fills the first folder, which is kept; may use the second for temporary files.
Build = Callable[[Path, Path], Facts]


def ignore_progress(line: str) -> None:
    """Discard a progress message."""


def cache_root() -> Path:
    """Return the folder of all downloads: `$THEODOLITE_CACHE`, else the user's cache folder."""
    override = os.environ.get("THEODOLITE_CACHE")
    return Path(override).expanduser() if override else Path(user_cache_dir("theodolite"))


def is_complete(folder: Path, sha256: str) -> bool:
    """Return whether the folder was built from the file with this digest and all its files have their sizes."""
    try:
        record = _read_record(folder)
        return (
            record["sha256"] == sha256
            and record["layout"] == LAYOUT
            and all((folder / name).stat().st_size == size for name, size in record["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def find_damaged(folder: Path) -> list[str]:
    """Return the files of a complete folder whose content has changed. Older records have no checksums.

    A file is read once by a process, and again only if its size or time has changed.
    """
    known: dict[str, str] = _read_record(folder).get(CHECKSUMS) or {}
    return [name for name, expected in known.items() if _checksum(folder / name) != expected]


def _read_record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / RECORD).read_text("utf-8"))
    return record


def _checksum(path: Path) -> str:
    found = path.stat()
    return _checksum_of(path, found.st_size, found.st_mtime_ns)


@cache
def _checksum_of(path: Path, size: int, changed: int) -> str:
    return checksum(path)


def build_once(
    folder: Path, sha256: str, facts: Facts, build: Build, progress: Progress = ignore_progress
) -> Path:
    """Return the folder, built first if it is not complete; other processes wait for the one that builds it.

    A complete folder is returned without a lock, so that the cache may be on a read-only disk. One whose files
    have changed is built again.
    """
    complete = is_complete(folder, sha256)
    damaged = find_damaged(folder) if complete else []
    if complete and not damaged:
        return folder
    if damaged:
        progress(f"{folder / damaged[0]} has changed since it was unpacked: {folder.name} is built again")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _hold_lock(folder, progress):
            if not is_complete(folder, sha256) or find_damaged(folder):
                _remove_partial_folders(folder)
                _build_folder(folder, {**facts, "sha256": sha256}, build)
    except OSError as error:
        raise TheodoliteError(
            f"Could not unpack into {folder}: {error}. "
            "Set THEODOLITE_CACHE to a writable folder with enough free space."
        ) from error
    return folder


def _build_folder(folder: Path, facts: Facts, build: Build) -> None:
    """Build the folder under a temporary name, then rename it; leave nothing else behind."""
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        target = work / "made"
        target.mkdir()
        found = build(target, work)
        _write_record(target, {**facts, **found})
        if folder.exists():  # incomplete for another reason, for example an interrupted copy
            folder.rename(work / "broken")
        target.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_record(folder: Path, facts: Facts) -> None:
    """Write the record of the folder, after everything else, with the size and checksum of every file."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    record = {
        **facts,
        "layout": LAYOUT,
        "files": {name: path.stat().st_size for name, path in paths.items()},
        CHECKSUMS: {name: checksum(path) for name, path in paths.items()},
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")


@contextmanager
def _hold_lock(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of this folder; the operating system releases it when a process dies."""
    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(f"waiting for another process that is building {folder.name}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _remove_partial_folders(folder: Path) -> None:
    """Remove partial folders of killed processes; the caller holds the lock, so no other process is using them."""
    for partial in folder.parent.glob(f".{folder.name}.*.part"):
        shutil.rmtree(partial, ignore_errors=True)
