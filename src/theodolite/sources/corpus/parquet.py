"""Parquet: one document a row, in one column of strings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, nearest
from theodolite.sources.corpus.labelled import Labelled
from theodolite.sources.corpus.options import CorpusOptions

ROWS = 128
# Streamed through a buffer; by default a whole row group's column is fetched at once. Pages that carry a checksum
# are held to it.
_STREAMED = {"pre_buffer": False, "buffer_size": 2**20, "page_checksum_verification": True}


def read_parquet(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the column's texts, some hundreds at a time; a null is None."""
    import pyarrow.parquet as pq

    with _damage_told(path), pq.ParquetFile(path, **_STREAMED) as table:
        _check_column(path, table.schema_arrow, options.column)
        columns = [options.column]
        if options.target is not None:
            _check_column(path, table.schema_arrow, options.target, "--target")
            columns.append(options.target)
        row = 0
        for batch in table.iter_batches(ROWS, columns=list(dict.fromkeys(columns))):
            texts = _texts(batch.column(options.column), options, path, row)
            if options.target is not None:
                labels = _texts(batch.column(options.target), options, path, row)
                pairs = zip(texts, labels, strict=True)
                texts = [None if text is None else Labelled(text, label or "") for text, label in pairs]
            yield texts
            row += len(batch)


def _check_column(path: Path, schema: Any, column: str, option: str = "--column") -> None:
    """Refuse a column that is not there or does not hold strings."""
    import pyarrow as pa

    if column not in schema.names:
        columns = ", ".join(map(repr, schema.names)) or "none"
        raise InputError(
            f"'{path}' has no column '{column}' (its columns: {columns}); "
            f"name the column that holds the text with {option}.{nearest(column, schema.names)}"
        )
    kind = schema.field(column).type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)):
        raise InputError(
            f"{option} '{column}' wants strings, but in '{path}' it is of type {kind}; "
            "name a column that holds text."
        )


def _texts(column: Any, options: CorpusOptions, path: Path, first: int) -> list[str | None]:
    """Return a batch's strings. Arrow does not check that they are UTF-8, so that is found out here."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        import pyarrow as pa

        strings = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        raw = strings.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return [_decode(value, options, path, row) for row, value in enumerate(raw, first)]


def _decode(value: bytes | None, options: CorpusOptions, path: Path, row: int) -> str | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8", options.encoding_errors)
    except UnicodeDecodeError as error:
        raise InputError(
            f"CORPUS wants text in UTF-8, but '{path}' has the byte 0x{value[error.start]:02x} in row {row} "
            f"(from 0) of column '{options.column}', at byte offset {error.start} of the value; "
            "mend it, or give --encoding-errors replace."
        ) from error


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Say of what fails in reading the file that the file is at fault."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"CORPUS wants a whole Parquet file, but '{path}' could not be read ({reason}); "
            "fetch or write it again."
        ) from error
