"""Storage: a survey is kept in a folder on disk, or in one of a bucket."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

from theodolite.errors import InputError
from theodolite.surveys.bucket import Bucket

Place = Path | Bucket

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,3}(.*)", re.DOTALL)  # a Path keeps one slash of two
HERE = ("file", "local")  # addresses of this disk


def placed(given: str | Path | Bucket) -> Place:
    """Return the folder, or the bucket's if an address was given; refuse one that nothing here can reach.

    >>> str(placed("surveys/minilm")), str(placed("memory://bucket/minilm/"))
    ('surveys/minilm', 'memory://bucket/minilm')
    """
    if isinstance(given, Bucket):
        return given
    match = ADDRESS.fullmatch(str(given))
    if match is None:
        return Path(given)
    protocol, rest = match[1].lower(), match[2].strip("/")
    if protocol in HERE:
        return Path("/") / rest
    found = Bucket(f"{protocol}://{rest}")
    found.check()
    if "/" not in rest:
        raise InputError(f"{found} is a whole bucket; give a folder in it, such as {found}/survey.")
    return found


def on_disk(given: str | Path, verb: str) -> Path:
    """Return the file or folder, for what writes there by itself; refuse a bucket, before it is looked for."""
    match = ADDRESS.fullmatch(str(given))
    if match is not None and (protocol := match[1].lower()) not in HERE:
        address = f"{protocol}://{match[2].strip('/')}"
        raise InputError(f"{address}: `theodolite {verb}` writes on disk alone; give a path there.")
    return Path(given) if match is None else Path("/") / match[2].strip("/")


def try_to_write(folder: Place) -> None:
    """Raise what writing there raises, and leave nothing."""
    if isinstance(folder, Bucket):
        probe = folder / f".{uuid4().hex}.part"
        probe.touch()
        probe.unlink(missing_ok=True)
    else:
        with tempfile.TemporaryFile(dir=folder):
            pass


def remove(place: Place, *, missing_ok: bool = False) -> None:
    """Delete a file or a folder with all that is in it."""
    if isinstance(place, Bucket):
        place.unlink(missing_ok=True)
        place.rmtree()
    elif place.is_dir():
        shutil.rmtree(place, ignore_errors=missing_ok)
    else:
        place.unlink(missing_ok=missing_ok)
