"""Fetching: a survey in a bucket is read from a copy on disk, of the files that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from theodolite.errors import InputError
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.state import STATE
from theodolite.surveys.storage import placed

FACTS = "survey.json"  # a folder with it is a whole survey
_copies: dict[str, TemporaryDirectory[str]] = {}  # by address; they go with the process


def copy_of(place: Bucket) -> Path:
    """Return the folder on disk that stands for a survey in a bucket as long as this process lives."""
    if place.url not in _copies:
        _copies[place.url] = TemporaryDirectory(prefix="theodolite-")
    folder = Path(_copies[place.url].name) / place.url.replace("://", "/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget_copy(place: Bucket) -> None:
    """Remove that folder: it is of another survey than the one that is there now."""
    if place.url in _copies:
        _copies.pop(place.url).cleanup()


def fetched(given: str | Path | Bucket, names: Sequence[str] | None = None) -> Path:
    """Return the survey's folder on disk; from a bucket these files are fetched, or all of them but the sums."""
    place = placed(given)
    if isinstance(place, Path):
        return place
    try:
        found = (place / FACTS).read_text()
    except FileNotFoundError:
        raise InputError(f"{place} holds no finished survey: there is no {FACTS} in it.") from None
    folder = copy_of(place)
    if (folder / FACTS).is_file() and (folder / FACTS).read_text(encoding="utf-8") != found:
        forget_copy(place)  # it was surveyed anew meanwhile
        folder = copy_of(place)
    (folder / FACTS).write_text(found, encoding="utf-8")
    there = {path.name for path in place.iterdir() if path.name != STATE} if names is None else set(names)
    for name in sorted(there - {FACTS}):
        if not (folder / name).exists() and (place / name).is_file():
            (place / name).get(folder / name)
    return folder
