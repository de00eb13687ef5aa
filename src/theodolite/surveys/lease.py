"""A lease: the lock of a bucket, which has none. Whoever writes there says so again and again in one object.

A run that was killed says nothing any more, and after a while another may take its place. What a lease cannot do
is stop a run that was cut off for that long and comes back: it only tells.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from uuid import uuid4

from theodolite.errors import InputError, TheodoliteError
from theodolite.surveys.bucket import Bucket

LOCK = ".lock"
BEAT = 10.0  # seconds from one word to the next
SILENCE = 45.0  # seconds after which a run that says nothing counts as dead
SETTLING = 2.0  # seconds in which two that take its place at once see each other


@contextmanager
def leased(folder: Bucket, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other runs out of the folder while this one is in it."""
    lock, owner, ended = folder / LOCK, f"{platform.node()}, process {os.getpid()}, {uuid4().hex[:8]}", Event()
    _take(lock, owner, say)
    beating = Thread(target=_beat, args=(lock, owner, ended, say), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        with suppress(TheodoliteError, FileNotFoundError):
            if _owner(lock.read_text()) == owner:
                lock.unlink(missing_ok=True)


def _take(lock: Bucket, owner: str, say: Callable[[str], None]) -> None:
    """Put the lock, or take over one that is not renewed; no two machines' clocks are compared."""
    while (found := _read(lock)) is not None or not lock.create(_word(owner)):
        if found is None:
            continue  # another was first
        say(f"{lock.parent}: seeing whether {_owner(found)} is still writing there, for {SILENCE:.0f} s")
        if _silent(lock, found):
            lock.write_text(_word(owner))
            time.sleep(SETTLING)
            if _owner(_read(lock) or "") == owner:
                return
        raise InputError(
            f"--out {lock.parent}: another run is writing there now ({_owner(_read(lock) or found)}); wait for it "
            "or give another folder."
        )


def _silent(lock: Bucket, found: str) -> bool:
    """Say whether the lock stays as it was found."""
    until = time.monotonic() + SILENCE
    while time.monotonic() < until:
        time.sleep(min(1.0, SILENCE / 10))
        if _read(lock) != found:
            return False
    return True


def _beat(lock: Bucket, owner: str, ended: Event, say: Callable[[str], None]) -> None:
    """Renew the lock until the run ends, or somebody else has it."""
    while not ended.wait(BEAT):
        with suppress(TheodoliteError):  # a store that does not answer may answer the next time
            if _owner(_read(lock) or _word(owner)) != owner:
                say(f"{lock.parent}: another run took this one for dead and writes there too; stop one of them")
                return
            lock.write_text(_word(owner))


def _word(owner: str) -> str:
    return json.dumps({"owner": owner, "word": uuid4().hex})


def _owner(text: str) -> str:
    try:
        return str(json.loads(text)["owner"])
    except (ValueError, KeyError, TypeError):
        return "somebody"


def _read(lock: Bucket) -> str | None:
    try:
        return lock.read_text()
    except FileNotFoundError:
        return None
