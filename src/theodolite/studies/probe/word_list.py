"""A list of words with their classes, from a .csv file with the columns word and label."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from theodolite.errors import InputError, nearest
from theodolite.sources.text.windows import encodable

COLUMNS = ("word", "label")


class Entry(NamedTuple):
    """A word and one class of it; a word of several classes has several entries."""

    word: str
    label: str


def read_words(path: str | Path) -> list[Entry]:
    """Read a .csv of words: UTF-8 with or without a byte-order mark, other columns left aside."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"--words {file}: there is no such file.")
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            places = _places(file, header)
            return [_entry(file, reader.line_num, row, places) for row in reader if any(map(str.strip, row))]
    except UnicodeDecodeError as error:
        raise InputError(
            f"--words {file} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again."
        ) from None
    except csv.Error as error:
        raise InputError(f"--words {file} is no .csv that can be read: {error}.") from None


def checked(pairs: Sequence[tuple[str, str]]) -> list[Entry]:
    """Return pairs of word and class as entries; refuse an empty word or class."""
    entries = [Entry(encodable(str(word)).strip(), encodable(str(label)).strip()) for word, label in pairs]
    for number, entry in enumerate(entries):
        if not all(entry):
            raise InputError(f"words: pair {number} has no {COLUMNS[0 if not entry.word else 1]}.")
    return entries


def _places(file: Path, header: Sequence[str]) -> list[int]:
    for name in COLUMNS:
        if name not in header:
            came = ", ".join(map(repr, header[:8])) or "nothing"
            raise InputError(
                f"--words {file}: wanted a first line with the columns word and label; there is no {name!r} in "
                f"{came}.{nearest(name, list(header))}"
            )
        if header.count(name) > 1:
            raise InputError(f"--words {file}: the column {name!r} is there {header.count(name)} times.")
    return [header.index(name) for name in COLUMNS]


def _entry(file: Path, line: int, row: Sequence[str], places: Sequence[int]) -> Entry:
    found = [row[place].strip() if place < len(row) else "" for place in places]
    for name, value in zip(COLUMNS, found, strict=True):
        if not value:
            raise InputError(f"--words {file}, line {line}: there is no {name}.")
    return Entry(*found)
