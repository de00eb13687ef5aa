"""Arrays and tensors as tables, and columns that lie beside a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.stored.table import TEXT, Batch, Field, Table, length


class ArrayTable:
    """An array or a tensor (vectors, dim); a copy is made only of a tensor on a GPU or in bfloat16."""

    metric: str | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, vectors: Any) -> None:
        dtype = None
        if isinstance(vectors, torch.Tensor):
            plain = vectors.detach().cpu()
            dtype = "bfloat16" if plain.dtype == torch.bfloat16 else None
            vectors = (plain.float() if dtype else plain).numpy()
        self.array = np.asarray(vectors)
        self.name = f"array of {self.array.shape}"
        if self.array.ndim != 2 or self.array.dtype.kind not in "fiub":
            raise InputError(
                f"SOURCE: expected a file or a numeric array (vectors, dim), got {self.array.dtype} of shape "
                f"{self.array.shape}."
            )
        self.fields = {"vectors": Field(dtype or self.array.dtype.name, self.array.shape)}

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the array."""
        for first in range(start, len(self.array), rows):
            yield {"vectors": self.array[first : first + rows]}

    def digest(self) -> str:
        """Return the sha256 of type, shape and values."""
        made = sha256(f"{self.array.dtype} {self.array.shape}".encode())
        for first in range(0, len(self.array), 8192):
            made.update(np.ascontiguousarray(self.array[first : first + 8192]).tobytes())
        return made.hexdigest()

    def state(self) -> Hashable:
        """An array is taken not to change."""
        return self.array.shape


class WithColumns:
    """A table with further columns that are in memory."""

    def __init__(self, table: Table, added: dict[str, NDArray[Any]]) -> None:
        self.table = table
        self.added = added
        self.fields = table.fields | {name: Field(TEXT, values.shape) for name, values in self.added.items()}
        self.metric, self.notes = table.metric, table.notes

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the table, and beside them the rows of the other columns."""
        row = start
        for batch in self.table.batches([name for name in names if name not in self.added], start, rows):
            stop = row + length(batch)
            beside = {name: self.added[name][row:stop] for name in names if name in self.added}
            if any(len(values) < stop - row for values in beside.values()):
                raise InputError(f"a column has {min(map(len, self.added.values())):,} values for more vectors.")
            yield batch | beside
            row = stop

    def digest(self) -> str:
        """Return the digest of the table; the vectors are in it."""
        return self.table.digest()

    def state(self) -> Hashable:
        """Return the state of the table."""
        return self.table.state()


def to_column(values: Any, option: str) -> NDArray[Any]:
    """Return one value per vector as an array."""
    if isinstance(values, np.ndarray):
        column = values
    else:
        listed = values.tolist() if isinstance(values, torch.Tensor) else list(values)
        column = np.empty(len(listed), dtype=object)
        column[:] = listed
    if column.ndim != 1:
        raise InputError(f"{option}: expected one value per vector, got an array of shape {column.shape}.")
    return column
