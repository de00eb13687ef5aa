"""A table as a store: vectors in floats, the columns that were asked for, and what was noticed while reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, first_line
from theodolite.sources.stored.table import Batch, Table, length, regroup
from theodolite.stores.reader import BLOCK_ROWS, Block
from theodolite.stores.reading.packing import unpack, unpacked_dim
from theodolite.text import pluralize


class StoreReader:
    """The rows of a table (see `Reader`).

    `columns` maps "id", "label", "text" and "time" to names of columns of the table. `notes` are sentences about
    the store: those of its format from the start, and what was found when all rows have been read once.
    """

    def __init__(
        self,
        table: Table,
        *,
        name: str,
        vectors: str,
        columns: dict[str, str],
        packing: str | None,
        metric: str | None,
    ) -> None:
        field = table.fields[vectors]
        self.name, self.table = name, table
        self.vectors, self._names, self.packing = vectors, columns, packing
        self.count = field.shape[0]
        self.dim = unpacked_dim(field.shape[1] or 0, packing)
        self.dtype = field.dtype
        self.metric = metric or field.metric or table.metric
        self.columns = tuple(columns)
        self.notes = list(table.notes)
        self._state = table.state()
        self._read_once = False

    @cached_property
    def digest(self) -> str:
        """Identifies the contents: the table, its column of vectors and how they are packed."""
        return sha256(f"{self.table.digest()} {self.vectors} {self.packing}".encode()).hexdigest()

    def blocks(self, start: int = 0, *, rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield all rows from number `start` on, at most `rows` at a time."""
        wanted = [self.vectors, *dict.fromkeys(self._names.values())]
        found = _Findings()
        row = start
        with blame(self.name):
            for batch in regroup(self.table.batches(wanted, start, rows), rows):
                block = self._block(batch, row)
                found.add(block)
                row += len(block)
                yield block
        if start == 0 and not self._read_once:
            self._read_once = True
            if not row:
                raise InputError(f"SOURCE {self.name!r} holds no vectors.")
            self.notes += found.sentences(self)
        self._check_unchanged(row if row > start else None)

    def _block(self, batch: Batch, row: int) -> Block:
        stored = batch[self.vectors]
        width = unpacked_dim(stored.shape[1], self.packing)
        if width != self.dim and not stored.shape[1]:  # rows without a vector only
            stored = np.full((length(batch), self.dim), np.nan, dtype=np.float32)
        elif width != self.dim:
            raise InputError(
                f"all vectors must have the same length, but row {row:,} has {width:,} coordinates and the rows "
                f"before it have {self.dim:,}."
            )
        else:
            stored = unpack(stored, self.packing)
        return Block(row, stored, {role: batch[name] for role, name in self._names.items()})

    def _check_unchanged(self, read: int | None) -> None:
        counted = read if self.count is not None and read is not None and read != self.count else None
        if self.table.state() == self._state and counted is None:
            return
        rows = f" ({self.count:,} rows when it was opened, {counted:,} read)" if counted is not None else ""
        note = f"{self.name} changed while it was read{rows}: results mix two versions. Read a copy or a snapshot."

        if note not in self.notes:
            self.notes.append(note)


class _Findings:
    """What one pass over all rows finds: rows without a vector, missing and repeated ids. 8 bytes a row."""

    def __init__(self) -> None:
        self.rows = self.empty = self.unnamed = 0
        self.hashes: list[NDArray[np.uint64]] = []

    def add(self, block: Block) -> None:
        self.rows += len(block)
        self.empty += int(np.isnan(block.vectors[:, 0]).sum() and np.isnan(block.vectors).all(axis=1).sum())
        if "id" not in block.columns:
            return
        ids = block.columns["id"]
        missing = pd.isna(ids) | (ids == "")
        self.unnamed += int(missing.sum())
        hashed = hash_ids(ids)
        hashed[missing] = np.arange(block.start, block.start + len(block), dtype=np.uint64)[missing]
        self.hashes.append(hashed)

    def sentences(self, reader: StoreReader) -> list[str]:
        made = []
        rows = pluralize(self.rows, "row")
        if self.empty:
            made.append(f"{self.empty:,} of {rows} have no vector or only NaN.")
        if self.unnamed:
            made.append(f"{self.unnamed:,} of {rows} have no id; tables list them by row number.")
        if self.hashes:
            hashes = np.concatenate(self.hashes)
            order = np.argsort(hashes, kind="stable")
            again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
            if len(again):
                first, second = sorted(order[again[0] : again[0] + 2].tolist())
                made.append(
                    f"{len(again):,} of {rows} repeat the id of another, such as rows {first:,} and {second:,}."
                    " Ids should be unique."
                )
        return made


def hash_ids(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of every id."""
    plain = ids if ids.dtype.kind in "iu" else np.array([str(value) for value in ids], dtype=object)
    return np.array(pd.util.hash_array(plain, categorize=False), dtype=np.uint64)


@contextmanager
def blame(name: str) -> Iterator[None]:
    """Raise errors of a format as errors that name the store."""
    try:
        yield
    except TheodoliteError as error:
        if error.message.startswith("SOURCE "):
            raise
        raise type(error)(f"SOURCE {name!r}: {error.message}") from error
    except (ImportError, GeneratorExit):
        raise
    except Exception as error:  # the library of each format has its own errors
        raise InputError(f"SOURCE {name!r} cannot be read: {first_line(error)}") from error
