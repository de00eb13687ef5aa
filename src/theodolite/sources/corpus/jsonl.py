"""JSON lines: one object a line, the document in one of its fields."""

import json
from collections.abc import Iterator
from pathlib import Path

from theodolite.errors import InputError, nearest
from theodolite.sources.corpus.labelled import Labelled
from theodolite.sources.corpus.lines import line_blocks
from theodolite.sources.corpus.options import CorpusOptions


def read_jsonl(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the field's texts, some hundreds at a time; a null is None, and blank lines are passed over."""
    for first, lines in line_blocks(path, options.encoding_errors):
        yield [
            _document(line, options, f"{path}:{number}")
            for number, line in enumerate(lines, first)
            if line and not line.isspace()
        ]


def _document(line: str, options: CorpusOptions, where: str) -> str | None:
    """Return the text of one line, with its label where one is wanted, or say what is wrong with the line."""
    record = _record(line, where)
    text = _text(record, options.field, where)
    if options.target is None or text is None:
        return text
    return Labelled(text, _text(record, options.target, where, "--target") or "")


def _text(record: dict[str, object], field: str, where: str, option: str = "--field") -> str | None:
    try:
        text = record[field]
    except KeyError:
        raise _lacking(field, list(record), where, option) from None
    if text is None or isinstance(text, str):
        return text
    raise InputError(
        f"{where}: {option} '{field}' wants a string (or null, which counts as blank), but {_kind(text)} "
        "came; name a field that holds text."
    )


def _record(line: str, where: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # an integer of too many digits is a ValueError as well
        raise InputError(
            f"{where}: CORPUS wants one JSON object a line, but this line is not valid JSON ({error}); "
            "mend the line."
        ) from error
    if isinstance(record, dict):
        return record
    raise InputError(
        f'{where}: CORPUS wants one JSON object a line, such as {{"text": "..."}}, but {_kind(record)} came; '
        "mend the line."
    )


def _lacking(field: str, there: list[str], where: str, option: str) -> InputError:
    fields = ", ".join(map(repr, there)) or "none"
    return InputError(
        f"{where}: the line has no field '{field}' (its fields: {fields}); "
        f"name the field that holds the text with {option}.{nearest(field, there)}"
    )


def _kind(value: object) -> str:
    """Return what JSON calls a value of that type."""
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
