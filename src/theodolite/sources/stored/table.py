"""What every format of stored vectors gives: named columns of rows, read in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, nearest

Batch = dict[str, NDArray[Any]]
"""Column -> (rows,) or (rows, dim)."""
TEXT = "text"
"""The dtype of columns whose values are not numbers."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table.

    dtype   type of the stored numbers, such as "float16" or "bfloat16"; TEXT for anything else
    shape   (rows, dim) for vectors, (rows,) for single values; None for a number of rows that is not known
    metric  the metric that is declared for this column, if columns have different ones
    """

    dtype: str
    shape: tuple[int | None, ...]
    metric: str | None = None

    @property
    def is_matrix(self) -> bool:
        """Whether every row is a vector of numbers."""
        return len(self.shape) == 2 and self.dtype != TEXT

    def __str__(self) -> str:
        return f"{self.dtype} of shape ({', '.join('?' if n is None else str(n) for n in self.shape)})"


class Table(Protocol):
    """A file or a collection of a database, opened for reading."""

    fields: dict[str, Field]
    metric: str | None
    """The metric that the table declares: "cosine", "dot" or "euclidean"."""
    notes: tuple[str, ...]
    """What a reader of the numbers should know, as sentences."""

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield the named columns from row `start` on, in batches of any size (`rows` is a wish)."""
        ...

    def digest(self) -> str:
        """Return hexadecimal digits that identify the contents."""
        ...

    def state(self) -> Hashable:
        """Return something that is quick to find and that differs if the contents have changed."""
        ...


class FileTable:
    """A table whose contents are one or more files."""

    fields: dict[str, Field]
    metric: str | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, *paths: Path) -> None:
        self.paths = paths

    @property
    def path(self) -> Path:
        """The first file."""
        return self.paths[0]

    def digest(self) -> str:
        """Return the sha256 of the file, or of the digests of several files."""
        digests = []
        for path in self.paths:
            with path.open("rb") as stream:
                digests.append(file_digest(stream, "sha256").hexdigest())
        return digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()

    def state(self) -> Hashable:
        """Return size, time of change and number of every file."""
        return file_state(self.paths)


def file_state(paths: Sequence[Path]) -> Hashable:
    """Return size, time of change and number of every file; None in place of a file that is gone."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_size, stat.st_mtime_ns, stat.st_ino))
    return tuple(found)


def regroup(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Yield the same rows in batches of exactly `rows`, except the last."""
    held: list[Batch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += length(batch)
        while size >= rows:
            whole = _join(held)
            yield {name: values[:rows] for name, values in whole.items()}
            held, size = [{name: values[rows:] for name, values in whole.items()}], size - rows
    if size:
        yield _join(held)


def length(batch: Batch) -> int:
    """Return the number of rows of a batch."""
    return len(next(iter(batch.values()))) if batch else 0


def _join(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    filled = [batch for batch in batches if length(batch)]
    return {name: np.concatenate([batch[name] for batch in filled]) for name in filled[0]}


def choose_matrix(fields: dict[str, Field], column: str | None) -> str:
    """Return the name of the column of vectors: the given one, or the only one.

    Raises an error that lists the columns if there is none, or more than one.
    """
    matrices = [name for name, field in fields.items() if field.is_matrix]
    if column is not None:
        if column not in fields:
            raise missing_column("--column", column, list(fields))
        if column not in matrices:
            raise InputError(
                f"--column {column}: expected vectors of numbers (vectors, dim), got {fields[column]}."
            )
        return column
    if not matrices:
        listed = ", ".join(f"{name}: {field}" for name, field in fields.items())
        raise InputError(f"it has no column of vectors (vectors, dim); it has {listed or 'nothing'}.")
    if len(matrices) > 1:
        listed = ", ".join(f"{name} ({fields[name]})" for name in matrices)
        raise InputError(f"it has several columns of vectors: {listed}. Choose one with --column.")
    return matrices[0]


def missing_column(option: str, name: str, present: list[str]) -> InputError:
    """Return the error of a column that is not there."""
    known = f"its columns are {', '.join(present)}" if present else "it has no columns"
    return InputError(f"{option} {name!r} is not there; {known}.{nearest(name, present)}")
