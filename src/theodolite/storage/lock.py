"""Locks: only one run at a time writes to a folder."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

from filelock import FileLock, Timeout

from theodolite.errors import InputError, TheodoliteError
from theodolite.storage.bucket import Bucket
from theodolite.storage.location import Location

# A bucket has no locks, so a run renews a lease there: an object with its name that changes every few seconds. If
# the lease of a killed run is not renewed for a while, another run takes over. A lease cannot stop a run that was
# disconnected for that long and comes back; it only warns.
LOCK = ".lock"
RENEW_SECONDS = 10.0  # between renewals of a lease
STALE_SECONDS = 45.0  # after which a run that does not renew its lease counts as dead
SETTLE_SECONDS = 2.0  # in which two runs that take over at once notice each other
LOOK_SECONDS = 0.2  # in which a process that only looks at a lock releases it again


@contextmanager
def hold_lease(folder: Bucket, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other runs out of a folder in a bucket."""
    lock, owner, ended = folder / LOCK, f"{platform.node()}, process {os.getpid()}, {uuid4().hex[:8]}", Event()
    _acquire(lock, owner, say)
    beating = Thread(target=_renew, args=(lock, owner, ended, say), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        with suppress(TheodoliteError, FileNotFoundError):
            if _owner(lock.read_text()) == owner:
                lock.unlink(missing_ok=True)


def _acquire(lock: Bucket, owner: str, say: Callable[[str], None]) -> None:
    """Create the lease, or take over one that is not renewed; clocks of different machines are not compared."""
    while (found := _read(lock)) is not None or not lock.create(_lease_text(owner)):
        if found is None:
            continue  # another run was first
        say(f"{lock.parent}: waiting {STALE_SECONDS:.0f} s to see whether {_owner(found)} is still writing there")
        if _is_stale(lock, found):
            lock.write_text(_lease_text(owner))
            time.sleep(SETTLE_SECONDS)
            if _owner(_read(lock) or "") == owner:
                return
        raise InputError(
            f"--out {lock.parent}: another run is writing there ({_owner(_read(lock) or found)}). Wait for it, "
            "or choose another folder."
        )


def _is_stale(lock: Bucket, found: str) -> bool:
    """Return whether the lease stays unchanged."""
    until = time.monotonic() + STALE_SECONDS
    while time.monotonic() < until:
        time.sleep(min(1.0, STALE_SECONDS / 10))
        if _read(lock) != found:
            return False
    return True


def _renew(lock: Bucket, owner: str, ended: Event, say: Callable[[str], None]) -> None:
    """Renew the lease until the run ends or another run has it."""
    while not ended.wait(RENEW_SECONDS):
        with suppress(TheodoliteError):  # a store that does not answer may answer next time
            if _owner(_read(lock) or _lease_text(owner)) != owner:
                say(f"{lock.parent}: another run took over and writes there too; stop one of them")
                return
            lock.write_text(_lease_text(owner))


def _lease_text(owner: str) -> str:
    return json.dumps({"owner": owner, "word": uuid4().hex})


def _owner(text: str) -> str:
    try:
        return str(json.loads(text)["owner"])
    except (ValueError, KeyError, TypeError):
        return "unknown run"


def _read(lock: Bucket) -> str | None:
    try:
        return lock.read_text()
    except FileNotFoundError:
        return None


@contextmanager
def exclusive(folder: Location, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Keep other runs out of the folder. The lock of a killed run is released by the system."""
    if isinstance(folder, Bucket):
        with hold_lease(folder, say):
            yield
        return
    path = _lock_file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=LOOK_SECONDS)
    except Timeout:
        raise _in_use(folder) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def find_writer(folder: Location) -> str | None:
    """Return who is writing to the folder, None if nobody is. A lease in a bucket may be that of a killed run."""
    if isinstance(folder, Bucket):
        found = _read(folder / LOCK)
        return None if found is None else f"another run ({_owner(found)})"
    path = _lock_file(folder)
    if not path.exists():
        return None
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return "another run"
    except OSError:  # the file of another user, who may have been killed
        return None
    lock.release()
    return None


def check_unlocked(folder: Location) -> None:
    """Reject a folder on disk that another run is writing to. A bucket is not checked: that would take time."""
    if isinstance(folder, Path) and find_writer(folder) is not None:
        raise _in_use(folder)


def _lock_file(folder: Path) -> Path:
    """Return the lock's path, which is the same for every link to the folder."""
    real = folder.resolve()
    return real.parent / f".{real.name}.lock"


def _in_use(folder: Path) -> InputError:
    return InputError(f"--out {folder}: another run is writing there. Wait for it, or choose another folder.")
