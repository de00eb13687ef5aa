"""Surveys in a bucket are read from a local copy of the files that are needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from theodolite.errors import InputError
from theodolite.storage.bucket import Bucket
from theodolite.storage.file_names import FACTS, STATE
from theodolite.storage.location import parse_location

_copies: dict[str, TemporaryDirectory[str]] = {}  # by address; deleted when the process ends


def local_copy(place: Bucket) -> Path:
    """Return the local folder for a survey in a bucket, which is deleted when the process ends."""
    if place.url not in _copies:
        _copies[place.url] = TemporaryDirectory(prefix="theodolite-")
    folder = Path(_copies[place.url].name) / place.url.replace("://", "/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def delete_local_copy(place: Bucket) -> None:
    """Delete the local folder: the survey in the bucket has changed."""
    if place.url in _copies:
        _copies.pop(place.url).cleanup()


def download(location: str | Path | Bucket, names: Sequence[str] | None = None) -> Path:
    """Return the survey's folder on disk; from a bucket, download the named files (default: all but the state)."""
    place = parse_location(location)
    if isinstance(place, Path):
        return place
    try:
        found = (place / FACTS).read_text()
    except FileNotFoundError:
        raise InputError(f"{place} does not contain a finished survey: there is no {FACTS}.") from None
    folder = local_copy(place)
    if (folder / FACTS).is_file() and (folder / FACTS).read_text(encoding="utf-8") != found:
        delete_local_copy(place)  # the survey was replaced
        folder = local_copy(place)
    (folder / FACTS).write_text(found, encoding="utf-8")
    there = {path.name for path in place.iterdir() if path.name != STATE} if names is None else set(names)
    for name in sorted(there - {FACTS}):
        if not (folder / name).exists() and (place / name).is_file():
            (place / name).get(folder / name)
    return folder
