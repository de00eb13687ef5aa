"""Tables as Parquet files, in which every measured column names its formula, and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from theodolite.errors import DamagedError
from theodolite.escaping import escape_formula
from theodolite.measures.formula import formula_of_column
from theodolite.storage.atomic import write_atomically
from theodolite.text import encodable


def write_table(path: Path, table: pd.DataFrame, metadata: dict[str, str] | None = None) -> None:
    """Write Parquet in which every measured column names its formula; `metadata` goes into the file's metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = formula_of_column(path.stem)
    arrow = pa.Table.from_pandas(_encodable(table), preserve_index=False)
    fields = [
        field.with_metadata({"formula": ids[field.name]}) if field.name in ids else field for field in arrow.schema
    ]
    arrow = arrow.cast(pa.schema(fields, metadata=(arrow.schema.metadata or {}) | _bytes(metadata or {})))
    # Keys and names repeat, measured numbers do not.
    repeated = [field.name for field in fields if not pa.types.is_floating(field.type)]

    def write(temporary: Path) -> None:
        checked = bool(metadata)
        pq.write_table(arrow, temporary, compression="zstd", use_dictionary=repeated, write_page_checksum=checked)

    write_atomically(path, write)


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
