"""Read documents from text files: one per line, JSON lines and Parquet."""

from __future__ import annotations

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self, cast

from theodolite.corpora.chat import FIELD, write_conversation
from theodolite.corpora.fields import FILE, LENGTH, Value, to_value
from theodolite.corpora.options import CorpusOptions
from theodolite.errors import InputError, nearest


class Labelled(str):
    """A document with a label: for an encoder-decoder model, the text that its decoder reads.

    `value` is that of the field by which documents are grouped.

    >>> pair = Labelled("une maison", "a house")
    >>> pair, pair.label, len(pair)
    ('une maison', 'a house', 10)
    """

    __slots__ = ("label", "value")
    label: str | None
    value: Value

    def __new__(cls, text: str, label: str | None, value: Value = None) -> Self:
        """Make a string of the text, with the label and the value as attributes."""
        labelled = super().__new__(cls, text)
        labelled.label, labelled.value = label, value
        return labelled

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, Value]]:
        return type(self), (str(self), self.label, self.value)


def label_of(text: str) -> str | None:
    """Return the label of a document, None if it has none."""
    return text.label if isinstance(text, Labelled) else None


def labels_of(documents: list[tuple[int, str]]) -> dict[int, str]:
    """Return the labels by document number, for the documents that have one."""
    return {number: label for number, text in documents if (label := label_of(text)) is not None}


def with_value(text: str | None, given: object, options: CorpusOptions) -> str | None:
    """Return a document with the value of the field that groups documents, if one is given."""
    if text is None or options.by in (None, LENGTH, FILE):
        return text
    return Labelled(text, label_of(text), to_value(given, str(options.by)))


def value_of(text: str) -> Value:
    """Return the value of a document in the field that groups documents."""
    return text.value if isinstance(text, Labelled) else None


BLOCK = 2**18
# First bytes of files that are not UTF-8 text at all; replacing their bytes would only hide that.
_OTHER_FORMATS = {
    b"\xff\xfe": ("UTF-16", "convert it to UTF-8"),
    b"\xfe\xff": ("UTF-16", "convert it to UTF-8"),
    b"\x1f\x8b": ("gzip", "add the ending .gz to its name"),
}


def line_blocks(path: Path, errors: str, block: int = BLOCK) -> Iterator[tuple[int, list[str]]]:
    r"""Yield (number of the first line, lines) for blocks of complete lines, numbered from 1.

    Only \n and \r\n end a line, and they are not part of it; other line ends of Unicode stay in the text.
    Memory: a block of the file, or its longest line.
    """
    number = 1
    for offset, data in _complete_lines(path, block):
        text = _decode_block(data, errors, path, number, offset)
        lines = (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")
        if data.endswith(b"\n"):
            lines.pop()
        yield number, lines
        number += len(lines)


def _complete_lines(path: Path, block: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset in the file, bytes), cut after a newline; a byte order mark is skipped."""
    pending: list[bytes] = []
    with _open_file(path) as stream:
        offset, chunk = _skip_byte_order_mark(stream.read(max(block, len(BOM_UTF8))), path)
        while chunk:
            cut = chunk.rfind(b"\n") + 1
            pending.append(chunk[:cut] if cut else chunk)
            if cut:
                data = b"".join(pending)
                yield offset, data
                offset += len(data)
                pending = [chunk[cut:]]
            chunk = stream.read(block)
    if last_line := b"".join(pending):
        yield offset, last_line


def _skip_byte_order_mark(start: bytes, path: Path) -> tuple[int, bytes]:
    """Return the offset and the bytes after a byte order mark; reject what is clearly not UTF-8."""
    if other := _OTHER_FORMATS.get(start[:2]):
        kind, advice = other
        raise InputError(f"CORPUS requires text in UTF-8, but '{path}' begins like a {kind} file; {advice}.")
    mark = len(BOM_UTF8) if start.startswith(BOM_UTF8) else 0
    return mark, start[mark:]


def _decode_block(data: bytes, errors: str, path: Path, line: int, offset: int) -> str:
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        unpacked = " after decompression" if path.suffix.lower() == ".gz" else ""
        raise InputError(
            f"CORPUS requires text in UTF-8, but '{path}' has the byte 0x{data[error.start]:02x} in line {line}, "
            f"at byte offset {offset + error.start} of the file{unpacked}; fix the file, or "
            "give --encoding-errors replace."
        ) from error


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its name ends in .gz; raise errors while it is open as InputErrors."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as stream:
                yield cast(IO[bytes], stream)
        else:
            with path.open("rb") as plain:
                yield plain
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"CORPUS requires a complete gzip file, but '{path}' is damaged or truncated ({error}); "
            "download or compress it again."
        ) from error
    except OSError as error:
        raise InputError(
            f"CORPUS '{path}' could not be read ({error.strerror or error}); check the file and its permissions."
        ) from error


def read_text(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the lines of a file, including blank ones, several hundred at a time."""
    if options.chat:
        raise InputError(
            f"--chat requires conversations in a .jsonl or .parquet file or a dataset, but '{path}' has one text "
            "per line. Omit --chat, or give a .jsonl file with a list of messages in each line."
        )
    for _, lines in line_blocks(path, options.encoding_errors):
        yield [*lines]


def read_jsonl(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the texts of the field, several hundred at a time; a null is None, and blank lines are skipped."""
    for first, lines in line_blocks(path, options.encoding_errors):
        yield [
            read_record(_record(line, f"{path}:{number}"), options, f"{path}:{number}")
            for number, line in enumerate(lines, first)
            if line and not line.isspace()
        ]


def read_record(record: dict[str, object], options: CorpusOptions, where: str) -> str | None:
    """Return the text of a record, with its label and value where options name them; raise if it has no text."""
    text: str | None
    if options.chat:
        field = options.find_field(record)
        if field not in record:
            raise _missing_field(field, list(record), where, "--field")
        text = write_conversation(record[field], where, f"--field '{field}'")
    else:
        text = _text(record, options.field, where)
        if options.target is not None and text is not None:
            text = Labelled(text, _text(record, options.target, where, "--target") or "")
    return with_value(text, record.get(str(options.by)), options)


LISTED = 100  # records whose fields are listed if the one asked for is not there; some records lack some


def list_fields(path: Path, options: CorpusOptions) -> list[str]:
    """Return the names of the fields of a file: of its first records, or its columns; none of a text file."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        with _blame_file(path):
            return list(pq.read_schema(path).names)
    if not path.name.lower().removesuffix(".gz").endswith(".jsonl"):
        return []
    found: dict[str, None] = {}
    records = 0
    for first, lines in line_blocks(path, options.encoding_errors):
        for number, line in enumerate(lines, first):
            if line and not line.isspace():
                found |= dict.fromkeys(_record(line, f"{path}:{number}"))
                records += 1
            if records == LISTED:
                return list(found)
    return list(found)


def _text(record: dict[str, object], field: str, where: str, option: str = "--field") -> str | None:
    try:
        text = record[field]
    except KeyError:
        raise _missing_field(field, list(record), where, option) from None
    if text is None or isinstance(text, str):
        return text
    raise InputError(
        f"{where}: {option} '{field}' requires a string (or null, which counts as blank), got {_kind(text)}; "
        "name a field that holds text."
    )


def _record(line: str, where: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # an integer of too many digits is a ValueError as well
        raise InputError(
            f"{where}: CORPUS requires one JSON object per line, but this line is not valid JSON ({error}); "
            "fix the line."
        ) from error
    if isinstance(record, dict):
        return record
    raise InputError(
        f'{where}: CORPUS requires one JSON object per line, such as {{"text": "..."}}, got {_kind(record)}; '
        "fix the line."
    )


def _missing_field(field: str, present: list[str], where: str, option: str) -> InputError:
    fields = ", ".join(map(repr, present)) or "none"
    if FIELD in present:
        advice = "add --chat to read the messages of conversations, or name the field that holds the text"
    else:
        advice = f"name the field that holds the {FIELD if field == FIELD else 'text'}"
    return InputError(
        f"{where}: the line has no field '{field}' (its fields: {fields}); "
        f"{advice} with {option}.{nearest(field, present)}"
    )


def _kind(value: object) -> str:
    """Return the JSON name of the type of a value."""
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


ROWS = 128
# Streamed through a buffer; by default the column of a complete row group is read at once. Checksums of pages are
# verified where there are any.
_STREAMED = {"pre_buffer": False, "buffer_size": 2**20, "page_checksum_verification": True}


def read_parquet(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the texts of the column, several hundred at a time; a null is None."""
    import pyarrow.parquet as pq

    with _blame_file(path), pq.ParquetFile(path, **_STREAMED) as table:
        if options.chat:
            yield from _read_conversations(path, table, options)
            return
        _check_column(path, table.schema_arrow, options.column)
        columns = [options.column]
        if options.target is not None:
            _check_column(path, table.schema_arrow, options.target, "--target")
            columns.append(options.target)
        columns += _value_column(table, options)
        row = 0
        for batch in table.iter_batches(ROWS, columns=list(dict.fromkeys(columns))):
            texts = _texts(batch.column(options.column), options, path, row)
            if options.target is not None:
                labels = _texts(batch.column(options.target), options, path, row)
                pairs = zip(texts, labels, strict=True)
                texts = [None if text is None else Labelled(text, label or "") for text, label in pairs]
            yield _with_values(texts, batch, options)
            row += len(batch)


def _read_conversations(path: Path, table: Any, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the conversations of a column, several hundred at a time."""
    column = options.find_column(table.schema_arrow.names)
    if column not in table.schema_arrow.names:
        raise missing_column(f"'{path}'", column, table.schema_arrow.names)
    row = 0
    for batch in table.iter_batches(ROWS, columns=[column, *_value_column(table, options)]):
        values = batch.column(column).to_pylist()
        where = ((value, f"{path}: row {number} (from 0)") for number, value in enumerate(values, row))
        texts = [write_conversation(value, place, f"--column '{column}'") for value, place in where]
        yield _with_values(texts, batch, options)
        row += len(batch)


def _value_column(table: Any, options: CorpusOptions) -> list[str]:
    """Return the column that groups documents, if the file has it; other files of the corpus may."""
    return [options.by] if options.by is not None and options.by in table.schema_arrow.names else []


def _with_values(texts: list[str | None], batch: Any, options: CorpusOptions) -> list[str | None]:
    if options.by is None:
        return texts
    known = options.by in batch.schema.names
    values = batch.column(options.by).to_pylist() if known else [None] * len(texts)
    return [with_value(text, value, options) for text, value in zip(texts, values, strict=True)]


def missing_column(what: str, column: str, present: list[str], option: str = "--column") -> InputError:
    """Return the error for a file or dataset without the column."""
    columns = ", ".join(map(repr, present)) or "none"
    held = FIELD if column == FIELD else "text"
    return InputError(
        f"{what} has no column '{column}' (its columns: {columns}); "
        f"name the column that holds the {held} with {option}.{nearest(column, present)}"
    )


def _check_column(path: Path, schema: Any, column: str, option: str = "--column") -> None:
    """Reject a column that does not exist or does not hold strings."""
    import pyarrow as pa

    if column not in schema.names:
        raise missing_column(f"'{path}'", column, schema.names, option)
    kind = schema.field(column).type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)):
        raise InputError(
            f"{option} '{column}' requires strings, but in '{path}' it is of type {kind}; "
            "name a column that holds text."
        )


def _texts(column: Any, options: CorpusOptions, path: Path, first: int) -> list[str | None]:
    """Return a batch's strings. Arrow does not check that they are UTF-8, so that is checked here."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        import pyarrow as pa

        strings = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        raw = strings.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return [_decode_value(value, options, path, row) for row, value in enumerate(raw, first)]


def _decode_value(value: bytes | None, options: CorpusOptions, path: Path, row: int) -> str | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8", options.encoding_errors)
    except UnicodeDecodeError as error:
        raise InputError(
            f"CORPUS requires text in UTF-8, but '{path}' has the byte 0x{value[error.start]:02x} in row {row} "
            f"(from 0) of column '{options.column}', at byte offset {error.start} of the value; "
            "fix the file, or give --encoding-errors replace."
        ) from error


@contextmanager
def _blame_file(path: Path) -> Iterator[None]:
    """Raise errors of pyarrow as InputErrors that name the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"CORPUS requires a complete Parquet file, but '{path}' could not be read ({reason}); "
            "download or write it again."
        ) from error
