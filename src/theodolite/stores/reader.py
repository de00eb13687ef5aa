"""What every source of stored vectors gives: blocks of rows in a fixed order, with their ids and other columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError

BLOCK_ROWS = 8192
"""Rows read at a time: 25 MB for 768 coordinates in float32."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a store.

    start    number of the first row in the store
    vectors  (rows, dim), float16, float32 or float64, as stored; not finite values are possible
    columns  name -> (rows,) array: "id" and others the reader was asked for ("label", "text", "time")
    """

    start: int
    vectors: NDArray[Any]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of the rows in the store."""
        return np.arange(self.start, self.start + len(self))

    @property
    def ids(self) -> NDArray[Any]:
        """The ids, or the row numbers if the store has none."""
        return self.columns.get("id", self.rows)


class Reader(Protocol):
    """A store opened for reading. Two readers of the same store give the same rows in the same order."""

    name: str
    """The source as the user gave it, for messages and reports."""
    count: int | None
    """The number of rows; None if it is known only after reading them all."""
    dim: int
    dtype: str
    """The type of the stored numbers, such as "float16" or "int8"."""
    metric: str | None
    """The metric that the store declares: "cosine", "dot" or "euclidean"; None if it declares none."""
    columns: tuple[str, ...]
    """Names of the columns that blocks have."""

    @property
    def digest(self) -> str:
        """Identifies the contents: a store that has changed has another digest."""
        ...

    def blocks(self, start: int = 0, *, rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield all rows from number `start` on, at most `rows` at a time."""
        ...


class ArrayReader:
    """An array (rows, dim) in memory or mapped from a file, as a store."""

    def __init__(
        self,
        vectors: NDArray[Any],
        *,
        name: str,
        digest: str,
        columns: dict[str, NDArray[Any]] | None = None,
        metric: str | None = None,
    ) -> None:
        if vectors.ndim != 2 or vectors.dtype.kind != "f":
            raise InputError(
                f"{name}: expected numbers (vectors, dim), got {vectors.dtype} of shape {vectors.shape}."
            )
        self.vectors = vectors
        self.name, self.digest, self.metric = name, digest, metric
        self.count: int | None = len(vectors)
        self.dim, self.dtype = int(vectors.shape[1]), str(vectors.dtype)
        self._columns = columns or {}
        self.columns = tuple(self._columns)

    def blocks(self, start: int = 0, *, rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield all rows from number `start` on, at most `rows` at a time."""
        for first in range(start, len(self.vectors), rows):
            part = slice(first, first + rows)
            columns = {name: values[part] for name, values in self._columns.items()}
            yield Block(first, np.asarray(self.vectors[part]), columns)
