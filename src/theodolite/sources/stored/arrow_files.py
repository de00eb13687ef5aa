"""Columns in Apache Arrow's memory format: .parquet (a file or a folder of files), .arrow and .feather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.stored.table import TEXT, Batch, Field, FileTable

_READ_SIZE = 1 << 20  # bytes of a column read at a time, so that a row group is never held whole


class ParquetTable(FileTable):
    """A Parquet file, or files of the same columns one after the other."""

    def __init__(self, *paths: Path) -> None:
        import pyarrow.parquet as pq

        super().__init__(*paths)
        self._counts = []
        schema: Any = None
        for path in paths:
            with pq.ParquetFile(path) as file:
                self._counts.append(file.metadata.num_rows)
                own = file.schema_arrow
            if schema is None:
                schema = own
            elif own.names != schema.names:
                raise InputError(
                    f"{path.name} has the columns {', '.join(own.names)}, but {paths[0].name} has "
                    f"{', '.join(schema.names)}; give files of the same columns."
                )
        self.fields = make_fields(schema, sum(self._counts), self._first_rows)

    def _first_rows(self, name: str) -> Iterator[Any]:
        for batch in self._record_batches([name], 0, 64):
            yield batch.column(0)

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named columns."""
        row = start
        for batch in self._record_batches(names, start, rows):
            yield convert_columns(batch, names, row)
            row += batch.num_rows

    def _record_batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for path, count in zip(self.paths, self._counts, strict=True):
            if start >= count:
                start -= count
                continue
            with pq.ParquetFile(path, buffer_size=_READ_SIZE, pre_buffer=False) as file:
                groups = list(range(file.metadata.num_row_groups))
                while groups and start >= file.metadata.row_group(groups[0]).num_rows:
                    start -= file.metadata.row_group(groups.pop(0)).num_rows
                for batch in file.iter_batches(rows, row_groups=groups, columns=list(names)):
                    skipped = min(start, batch.num_rows)
                    start -= skipped
                    if batch.num_rows > skipped:
                        yield batch.slice(skipped)


class ArrowTable(FileTable):
    """An Arrow file, as .arrow and .feather are, or a stream of record batches."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        counts, schema = [], None
        for batch, schema in self._stored():  # noqa: B007 - the schema is used below
            counts.append(0 if batch is None else batch.num_rows)
        self.fields = make_fields(schema, sum(counts), self._first_rows)

    def _stored(self) -> Iterator[tuple[Any, Any]]:
        """Yield the record batches with their schema; (None, schema) first."""
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as mapped:
            try:
                file = pa.ipc.open_file(mapped)
            except pa.ArrowInvalid:
                mapped.seek(0)
                with pa.ipc.open_stream(mapped) as stream:
                    yield None, stream.schema
                    for batch in stream:
                        yield batch, stream.schema
            else:
                with file:
                    yield None, file.schema
                    for index in range(file.num_record_batches):
                        yield file.get_batch(index), file.schema

    def _first_rows(self, name: str) -> Iterator[Any]:
        for batch, _ in self._stored():
            if batch is not None:
                yield batch.column(batch.schema.get_field_index(name))

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows of the named columns."""
        row = 0
        for batch, _ in self._stored():
            count = 0 if batch is None else batch.num_rows
            for first in range(max(start - row, 0), count, rows):
                yield convert_columns(batch.slice(first, rows), names, row + first)
            row += count


def make_fields(schema: Any, count: int | None, first_rows: Any) -> dict[str, Field]:
    """Return the fields of an Arrow schema.

    `first_rows(name)` yields the first arrays of a column: the length of its lists is that of the first list.
    """
    fields: dict[str, Field] = {}
    for entry in schema:
        dtype = _list_dtype(entry.type)
        if dtype is None:
            fields[entry.name] = Field(_dtype(entry.type), (count,))
        elif hasattr(entry.type, "list_size"):
            fields[entry.name] = Field(dtype, (count, entry.type.list_size))
        else:
            fields[entry.name] = Field(dtype, (count, _first_length(first_rows(entry.name))))
    return fields


def _first_length(arrays: Iterator[Any]) -> int:
    import pyarrow.compute as pc

    for array in arrays:
        lengths = pc.drop_null(pc.list_value_length(array))
        if len(lengths):
            return int(lengths[0].as_py())
    return 0


def _list_dtype(kind: Any) -> str | None:
    """Return the type of the numbers in a list; None if it is no list of numbers."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    listed = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    dtype = _dtype(kind.value_type) if any(test(kind) for test in listed) else TEXT
    return None if dtype == TEXT else dtype


def _dtype(kind: Any) -> str:
    import pyarrow as pa

    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return np.dtype(kind.to_pandas_dtype()).name if numeric else TEXT


def convert_columns(batch: Any, names: Sequence[str], row: int) -> Batch:
    """Return columns of a record batch or table as arrays; `row` is the number of its first row, for errors."""
    import pyarrow as pa

    made: Batch = {}
    for name in names:
        column = batch.column(batch.schema.get_field_index(name))
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        made[name] = to_array(column) if _list_dtype(column.type) is None else to_matrix(column, name, row)
    return made


def to_array(column: Any) -> NDArray[Any]:
    """Return a column of single values: numbers if none is missing, else objects with None."""
    if _dtype(column.type) != TEXT and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    made = np.empty(len(column), dtype=object)
    made[:] = column.to_pylist()
    return made


def to_matrix(column: Any, name: str, row: int) -> NDArray[Any]:
    """Return a column of lists (rows, dim); a missing list becomes a row of NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values_type = np.dtype(column.type.value_type.to_pandas_dtype())
    present = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))
    lengths = pc.list_value_length(column).drop_null().to_numpy(zero_copy_only=False)
    if not len(lengths):
        return np.full((len(column), 0), np.nan, dtype=np.float32)
    if (lengths != lengths[0]).any():
        at = int(np.flatnonzero(lengths != lengths[0])[0])
        first, other = (row + np.flatnonzero(present)[[0, at]]).tolist()
        raise InputError(
            f"--column {name}: all vectors must have the same length, but row {other:,} has "
            f"{lengths[at]:,} coordinates and row {first:,} has {lengths[0]:,}."
        )
    full = column.drop_null() if column.null_count else column
    flat = full.flatten()
    if pa.types.is_boolean(flat.type) or flat.null_count:
        flat = np.asarray(flat.to_numpy(zero_copy_only=False))
    else:
        flat = flat.to_numpy()
    matrix = np.asarray(flat).reshape(len(full), int(lengths[0]))
    if column.null_count:
        if values_type.kind != "f":
            raise InputError(
                f"--column {name}: row {row + int(np.flatnonzero(~present)[0]):,} has no vector; remove such rows."
            )
        whole = np.full((len(column), matrix.shape[1]), np.nan, dtype=matrix.dtype)
        whole[present] = matrix
        return whole
    return matrix
