"""Vectors in text: .jsonl, .csv and .tsv, the last also as PostgreSQL's COPY writes it (pgvector)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.stored.table import TEXT, Batch, Field, FileTable

COORDINATES = "coordinates"
"""The name of the vectors of a file whose columns are coordinates."""
_HEAD = 64  # rows that are read to find what the columns hold


def parse_vector(text: str) -> NDArray[np.float64] | None:
    """Return the numbers of "[1, 2]", "{1,2}" or "1 2"; None if the text is no vector.

    >>> parse_vector("[1, -2.5, nan]")
    array([ 1. , -2.5,  nan])
    """
    inner = text.strip()
    bracketed = inner[:1] + inner[-1:] in ("[]", "{}", "()")
    if bracketed:
        inner = inner[1:-1]
    parts = inner.split("," if "," in inner else None)
    if not bracketed and len(parts) < 2:
        return None
    try:
        return np.array(list(map(float, parts)))
    except ValueError:
        pass
    try:  # PostgreSQL writes NULL for a missing number
        return np.array([float("nan") if part.strip().lower() == "null" else float(part) for part in parts])
    except ValueError:
        return None


class TextTable(FileTable):
    """Rows as dictionaries of columns: text, numbers or lists of numbers. Their number is not known beforehand."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        head = list(islice(self._rows(), _HEAD))
        self.fields = {name: _find_field([row.get(name) for row in head]) for row in head for name in row}

    def _rows(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named columns."""
        stream = islice(self._rows(), start, None)
        row = start
        while part := list(islice(stream, rows)):
            yield {name: self._column([item.get(name) for item in part], name, row) for name in names}
            row += len(part)

    def _column(self, values: list[Any], name: str, row: int) -> NDArray[Any]:
        field = self.fields[name]
        if field.is_matrix:
            return stack_vectors(values, field.shape[1] or 0, row)
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made


def stack_vectors(values: Sequence[Any], dim: int, row: int) -> NDArray[np.float64]:
    """Return lists, arrays or texts of numbers as a matrix (rows, dim); None becomes a row of NaN."""
    made = np.full((len(values), dim), np.nan)
    for index, value in enumerate(values):
        if value is None or (isinstance(value, str) and not value):
            continue
        vector = parse_vector(value) if isinstance(value, str) else _to_vector(value)
        if vector is None:
            raise InputError(f"row {row + index:,} holds no vector: {str(value)[:40]!r}.")
        if len(vector) != dim:
            raise InputError(
                f"all vectors must have the same length, but row {row + index:,} has {len(vector):,} coordinates "
                f"and the first row has {dim:,}."
            )
        made[index] = vector
    return made


def _to_vector(value: Any) -> NDArray[np.float64] | None:
    try:
        vector = np.array(value, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        return None
    return vector if vector.ndim == 1 else None


def _find_field(values: list[Any]) -> Field:
    """Return what a column holds, from its first rows."""
    for value in values:
        if value is None or (isinstance(value, str) and not value):
            continue
        vector = parse_vector(value) if isinstance(value, str) else _to_vector(value)
        return Field(TEXT, (None,)) if vector is None else Field("float64", (None, len(vector)))
    return Field(TEXT, (None,))


class JsonLinesTable(TextTable):
    """One JSON object per line; a line may also be a bare list."""

    def _rows(self) -> Iterator[dict[str, Any]]:
        with self.path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise InputError(f"line {number:,} is no JSON: {error}") from error
                if not isinstance(value, dict | list):
                    raise InputError(f"line {number:,} holds {line.strip()[:40]!r}; expected an object or a list.")
                yield value if isinstance(value, dict) else {"vectors": value}


class CsvTable(TextTable):
    """Comma or tab separated columns: one of them holds vectors as text, or the columns are the coordinates.

    Columns are named by the first row, or by their number from 1 if it has no names. If no
    column holds vectors, every column of numbers is a coordinate, except ids and others that are read by name.
    """

    def __init__(self, path: Path) -> None:
        self._copied = path.suffix.lower() == ".tsv"
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = next(self._records(stream), [])
        self._header = _is_header(first)
        self._names = first if self._header else [str(number) for number in range(1, len(first) + 1)]
        if len(set(self._names)) < len(self._names):
            raise InputError("two columns have the same name; rename one of them in the first line.")
        super().__init__(path)
        numeric = [name for name in self._numeric() if name not in ("id", "ids", "_id")]
        self._coordinates: list[str] = []
        if not any(field.is_matrix for field in self.fields.values()) and len(numeric) > 1:
            self._coordinates = numeric
            self.fields[COORDINATES] = Field("float64", (None, len(numeric)))

    def _numeric(self) -> list[str]:
        head = list(islice(self._rows(), _HEAD))
        return [name for name in self._names if head and all(_is_number(row[name]) for row in head)]

    def drop_coordinates(self, names: Sequence[str]) -> None:
        """Read these columns as single values and no longer as coordinates."""
        self._coordinates = [name for name in self._coordinates if name not in names]
        if COORDINATES in self.fields:
            self.fields[COORDINATES] = Field("float64", (None, len(self._coordinates)))

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named columns."""
        if COORDINATES not in names or not self._coordinates:
            yield from super().batches(names, start, rows)
            return
        others = [name for name in names if name != COORDINATES]
        row = start
        for batch in super().batches([*others, *self._coordinates], start, rows):
            columns = []
            for name in self._coordinates:
                values = [value or "nan" for value in batch[name]]
                try:
                    columns.append(np.array(values, dtype=np.float64))
                except ValueError:
                    at = next(index for index, value in enumerate(values) if not _is_number(value))
                    raise InputError(f"row {row + at:,} has {values[at][:40]!r} in column {name!r}.") from None
            row += len(columns[0])
            yield {name: batch[name] for name in others} | {COORDINATES: np.stack(columns, axis=1)}

    def _rows(self) -> Iterator[dict[str, Any]]:
        width = len(self._names)
        with self.path.open(encoding="utf-8-sig", newline="") as stream:
            for number, record in enumerate(self._records(stream), 1):
                if (number == 1 and self._header) or not record:
                    continue
                if len(record) != width:
                    raise InputError(f"record {number:,} has {len(record):,} columns, the first one {width:,}.")
                yield {
                    name: None if cell == r"\N" else cell for name, cell in zip(self._names, record, strict=True)
                }

    def _records(self, stream: Any) -> Iterator[list[str]]:
        if self._copied:
            return (_split_copied(line) for line in stream if line.strip("\r\n"))
        _raise_field_limit()
        return csv.reader(stream)


def _split_copied(line: str) -> list[str]:
    r"""Return the fields of a line of COPY in its text format, in which \t, \n, \r and \\ are escaped."""
    fields = line.rstrip("\r\n").split("\t")
    return [field if "\\" not in field or field == r"\N" else _unescape(field) for field in fields]


def _unescape(field: str) -> str:
    marks = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
    made, letters = [], iter(field)
    for letter in letters:
        after = next(letters, "\\") if letter == "\\" else None
        made.append(letter if after is None else marks.get(after, after))
    return "".join(made)


def _is_header(cells: list[str]) -> bool:
    """Return whether a first row holds names: no vector and no fraction, and not only numbers.

    pandas names columns without a name 0, 1, 2: the numbers from 0 on are a header too.

    >>> [_is_header(cells) for cells in (["id", "0"], ["0", "1"], ["doc", "0.5"], ["7", "[1,2]"])]
    [True, True, False, False]
    """
    if cells and cells == [str(number) for number in range(len(cells))]:
        return True
    if any((_is_number(cell) and not cell.strip().isdigit()) or parse_vector(cell) is not None for cell in cells):
        return False
    return not all(_is_number(cell) or cell == r"\N" for cell in cells)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _raise_field_limit() -> None:
    """Allow fields of 16 MiB: a vector of 10,000 coordinates is longer than the limit of the csv module."""
    if csv.field_size_limit() < 1 << 24:
        csv.field_size_limit(1 << 24)
