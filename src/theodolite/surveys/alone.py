"""One run to a folder: a lock beside it keeps every other one out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from theodolite.errors import InputError


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep every other run out of the folder while this one is in it. The system frees a killed run's lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.parent / f".{folder.name}.lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"--out {folder}: another run is writing there now; wait for it or give another folder."
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
