"""Locations: a folder on disk, or a folder in a bucket."""

from __future__ import annotations

import re
import shutil
import tempfile
from os import PathLike
from pathlib import Path
from uuid import uuid4

from theodolite.errors import InputError
from theodolite.storage.bucket import Bucket

Location = Path | Bucket

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,3}(.*)", re.DOTALL)  # a Path keeps one of two slashes
LOCAL_PROTOCOLS = ("file", "local")  # of the local disk


def parse_location(location: str | Path | Bucket) -> Location:
    """Return a path, or a bucket for an address; reject an address that no installed package supports.

    >>> str(parse_location("surveys/minilm")), str(parse_location("memory://bucket/minilm/"))
    ('surveys/minilm', 'memory://bucket/minilm')
    """
    if isinstance(location, Bucket):
        return location
    if not isinstance(location, str | PathLike):
        raise InputError(f"expected a folder or its address, got a value of type {type(location).__name__}.")
    match = ADDRESS.fullmatch(str(location))
    if match is None:
        return Path(location)
    protocol, rest = match[1].lower(), match[2].strip("/")
    if protocol in LOCAL_PROTOCOLS:
        return Path("/") / rest
    found = Bucket(f"{protocol}://{rest}")
    found.check()
    if "/" not in rest:
        raise InputError(f"{found} is a bucket. Give a folder in it, such as {found}/survey.")
    return found


def local_path(given: str | Path, verb: str) -> Path:
    """Return a path on disk, for verbs that cannot write to a bucket."""
    match = ADDRESS.fullmatch(str(given))
    if match is not None and (protocol := match[1].lower()) not in LOCAL_PROTOCOLS:
        address = f"{protocol}://{match[2].strip('/')}"
        raise InputError(f"{address}: `theodolite {verb}` writes to disk only. Give a local path.")
    return Path(given) if match is None else Path("/") / match[2].strip("/")


def list_output_folder(folder: Location, option: str = "--out ") -> list[str]:
    """Return the sorted names in a folder that is to be written, none if it does not exist; reject a file."""
    if folder.is_file() or (isinstance(folder, Path) and folder.exists() and not folder.is_dir()):
        raise InputError(f"{option}{folder} is a file. Give the name of a folder.")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def check_writable(folder: Location) -> None:
    """Raise an error if the folder cannot be written; leaves no file."""
    if isinstance(folder, Bucket):
        probe = folder / f".{uuid4().hex}.part"
        probe.touch()
        probe.unlink(missing_ok=True)
    else:
        with tempfile.TemporaryFile(dir=folder):
            pass


def remove(place: Location, *, missing_ok: bool = False) -> None:
    """Delete a file, or a folder and its contents; of a symbolic link only the link."""
    if isinstance(place, Bucket):
        place.unlink(missing_ok=True)
        place.rmtree()
    elif place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=missing_ok)
    else:
        place.unlink(missing_ok=missing_ok)


def move(file: Location, to: Location) -> None:
    """Move a file within one disk or one bucket, replacing an existing one."""
    if isinstance(file, Bucket) and isinstance(to, Bucket):
        file.copy(to)
        file.unlink()
    elif isinstance(file, Path) and isinstance(to, Path):
        file.replace(to)
    else:
        raise ValueError(f"{file} and {to} are not in one place")


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
