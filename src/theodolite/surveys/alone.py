"""One run to a folder: a lock beside it keeps every other one out, or a lease in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from theodolite.errors import InputError
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.lease import leased
from theodolite.surveys.storage import Place


@contextmanager
def alone(folder: Place, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Keep every other run out of the folder while this one is in it. The system frees a killed run's lock."""
    if isinstance(folder, Bucket):
        with leased(folder, say):
            yield
        return
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
