"""Groups of sentences from a file: JSON, JSON lines or CSV, templates expanded."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.sources import units
from theodolite.sources.text.windows import encodable
from theodolite.studies.groups.templates import expand

ENDINGS = ("json", "jsonl", "csv")
Groups = dict[str, list[str]]
WANTED = 'wanted {"group": ["sentence", ...], ...} or rows with "group" and "sentence"'


def read_groups(file: str | Path) -> Groups:
    """Return the sentences of each group, templates not yet expanded."""
    path = Path(file)
    ending = path.suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise InputError(f"FILE {path}: the ending is one of {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise InputError(f"FILE {path}: there is no such file.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"FILE {path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    rows = {"json": _json, "jsonl": _json_lines, "csv": _csv}[ending](path, text)
    found: Groups = {}
    for group, sentence in rows:
        found.setdefault(group, []).append(sentence)
    return found


def expanded(groups: Mapping[str, Iterable[str]]) -> tuple[Groups, int]:
    """Return groups with their templates expanded, and how many sentences were dropped for being there twice.

    Sentences are as the tokenizer sees them, and names as tables can hold them.
    """
    found: Groups = {}
    dropped = 0
    for group, templates in groups.items():
        if isinstance(templates, str):
            raise InputError(f"Group {group!r} is one text; wanted a list of sentences.")
        written = [encodable(sentence).strip() for template in templates for sentence in expand(template)]
        if not written or not all(written):
            raise InputError(f"Group {group!r} has {'an empty' if written else 'no'} sentence.")
        name = units.encodable(group)
        found[name] = list(dict.fromkeys(written))
        dropped += len(written) - len(found[name])
    return found, dropped


def _json(path: Path, text: str) -> Iterator[tuple[str, str]]:
    value = _parsed(path, text, 1)
    if isinstance(value, dict):
        for group, sentences in value.items():
            if not isinstance(sentences, list | str):
                raise InputError(f"FILE {path}: group {group!r} holds no list; {WANTED}.")
            for sentence in [sentences] if isinstance(sentences, str) else sentences:
                yield _row(path, {"group": group, "sentence": sentence}, f"group {group!r}")
    elif isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield _row(path, row, f"row {number}")
    else:
        raise InputError(f"FILE {path} holds no object and no list; {WANTED}.")


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _row(path, _parsed(path, line, number), f"line {number}")


def _csv(path: Path, text: str) -> Iterator[tuple[str, str]]:
    rows = csv.DictReader(text.splitlines(keepends=True))
    missing = [name for name in ("group", "sentence") if name not in (rows.fieldnames or [])]
    if missing:
        raise InputError(f"FILE {path} has no column {missing[0]!r}; its first line names group and sentence.")
    for number, row in enumerate(rows, 2):
        yield _row(path, row, f"row {number}")


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        at = getattr(error, "lineno", 1) + line - 1
        raise InputError(f"FILE {path} is no JSON: {getattr(error, 'msg', error)} in line {at}.") from None


def _row(path: Path, row: Any, where: str) -> tuple[str, str]:
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("group", "sentence")):
        raise InputError(f"FILE {path}, {where}: {WANTED}, all texts.")
    return row["group"], row["sentence"]
