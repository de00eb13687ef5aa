"""Tables as Parquet files, in which every measured column names its formula, and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, cast

import pandas as pd

from theodolite.errors import DamagedError, TheodoliteError
from theodolite.escaping import escape_formula
from theodolite.measures.formula import formula_of_column
from theodolite.storage.atomic import write_atomically
from theodolite.text import encodable


def write_table(path: Path, table: pd.DataFrame, metadata: dict[str, str] | None = None) -> None:
    """Write Parquet in which every measured column names its formula; `metadata` goes into the file's metadata."""
    import pyarrow.parquet as pq

    arrow = _to_arrow(path.stem, table, metadata or {})
    given = _settings(arrow.schema) | {"write_page_checksum": bool(metadata)}
    write_atomically(path, lambda temporary: pq.write_table(arrow, temporary, **given))


class TableInParts:
    """Writes a table in another thread, part by part as they are made; as a context manager, all or nothing."""

    def __init__(self, path: Path) -> None:
        self.started = False
        self._path, self._parts = path, SimpleQueue[pd.DataFrame | None]()
        self._pool = ThreadPoolExecutor(1, "writing rows")
        self._complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self._parts.put(None)
        self._pool.shutdown()

    def add(self, part: pd.DataFrame) -> None:
        """Write these rows after those before, without waiting for it."""
        self._parts.put(part)
        if not self.started:
            self.started = True
            self._writing = self._pool.submit(write_atomically, self._path, self._write)

    def finish(self) -> None:
        """Wait until all rows are written."""
        self._complete = True
        self._parts.put(None)
        self._writing.result()

    def _write(self, temporary: Path) -> None:
        import pyarrow.parquet as pq

        first = _to_arrow(self._path.stem, cast(pd.DataFrame, self._parts.get()), {})
        with pq.ParquetWriter(temporary, first.schema, **_settings(first.schema)) as writer:
            writer.write_table(first)
            while (part := self._parts.get()) is not None:
                writer.write_table(_to_arrow(self._path.stem, part, {}))
        if not self._complete:
            raise TheodoliteError(f"{self._path} was not completed")


def _to_arrow(name: str, table: pd.DataFrame, metadata: dict[str, str]) -> Any:
    """Return the rows of a table of this name, whose measured columns name their formula."""
    import pyarrow as pa

    ids = formula_of_column(name)
    arrow = pa.Table.from_pandas(_encodable(table), preserve_index=False)
    fields = [
        field.with_metadata({"formula": ids[field.name]}) if field.name in ids else field for field in arrow.schema
    ]
    return arrow.cast(pa.schema(fields, metadata=(arrow.schema.metadata or {}) | _bytes(metadata)))


def _settings(schema: Any) -> dict[str, Any]:
    """Return how a table of this schema is written: keys and names repeat, measured numbers do not."""
    import pyarrow as pa

    repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return {"compression": "zstd", "use_dictionary": repeated}


def _bytes(metadata: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in metadata.items()}


def read_table(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a Parquet table, or some of its columns, with texts as categories."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if columns is None:
            return pd.read_parquet(path)
        schema = pq.read_schema(path)
        texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
        texts += [name for name in columns if pa.types.is_large_string(schema.field(name).type)]
        table: pd.DataFrame = pq.read_table(path, columns=list(columns), read_dictionary=texts).to_pandas()
        return table
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def _encodable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with lone surrogates, which Parquet cannot hold, written as \\udcXX."""
    fixed = table.copy(deep=False)
    for column in ("unit", "text") if len(table) else ():  # an empty list would become a column of floats
        if column in fixed and getattr(fixed[column].dtype, "storage", None) != "pyarrow":  # that holds none
            values = fixed[column].tolist()  # repeated: a unit has a row for every layer and population
            written = {value: encodable(str(value)) for value in set(values)}
            fixed[column] = [written[value] for value in values]
    return fixed


def format_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, in which no text is a formula for a spreadsheet.

    >>> format_csv(pd.DataFrame({"token": ["=1+1", "the"], "n": [1, 2]})).splitlines()
    ['token,n', "'=1+1,1", 'the,2']
    """
    safe = table.copy(deep=False)
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]):
            safe[name] = safe[name].map(escape_formula)
    return safe.to_csv(index=False)
