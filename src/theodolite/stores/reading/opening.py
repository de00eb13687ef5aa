"""open_store: from what a user calls their store to a reader of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from theodolite.corpora.catalogue.entries import VECTORS
from theodolite.corpora.catalogue.lookup import vectors_file
from theodolite.corpora.hf_datasets import is_dataset
from theodolite.errors import InputError
from theodolite.sources.stored.formats import open_file
from theodolite.sources.stored.table import Table, choose_matrix, missing_column
from theodolite.sources.stored.text_files import CsvTable
from theodolite.sources.vectors import read_column_file
from theodolite.stores.reading.arrays import ArrayTable, WithColumns, to_column
from theodolite.stores.reading.dataset import DatasetTable
from theodolite.stores.reading.faiss_index import ENDINGS, FaissTable
from theodolite.stores.reading.lance_folder import LanceTable, find_table
from theodolite.stores.reading.packing import find_packing
from theodolite.stores.reading.postgres import PREFIXES, PostgresTable, hide_password
from theodolite.stores.reading.qdrant import PREFIX, QdrantTable
from theodolite.stores.reading.store_reader import StoreReader, blame

if TYPE_CHECKING:
    from torch import Tensor

METRICS = ("cosine", "dot", "euclidean")
ID_COLUMNS = ("id", "ids", "_id")
"""Columns that are read as ids if none is named."""

Column = str | Sequence[Any] | None


def open_store(
    source: str | Path | NDArray[Any] | Tensor,
    *,
    column: str | None = None,
    id_column: Column = None,
    label_column: Column = None,
    text_column: Column = None,
    time_column: Column = None,
    packed: str | None = None,
    metric: str | None = None,
) -> StoreReader:
    """Open a store for reading; docs/stores.md lists the sources.

    column         the vectors, if the store has several columns or arrays of them
    id_column      the ids; by default the column id, ids or _id if there is one, else rows are known by number
    label_column, text_column, time_column
                   other columns to read. Each of the four may also be a file, .npy or .txt with one value per
                   line; for an array, the values themselves
    packed         what vectors in 8 bits mean: "binary", "int8" or "uint8"
    metric         "cosine", "dot" or "euclidean"; by default what the store declares
    """
    if metric is not None and metric not in METRICS:
        raise InputError(f"--metric must be one of {', '.join(METRICS)} (got {metric!r}).")
    name, table = _open_table(source)
    with blame(name):
        if column is None and isinstance(table, PostgresTable):
            column = table.column
        vectors = choose_matrix(table.fields, column)
        given = {"id": id_column, "label": label_column, "text": text_column, "time": time_column}
        table, columns = _find_columns(table, vectors, given)
        field = table.fields[vectors]
        if field.shape[0] == 0 or field.shape[1] == 0:
            raise InputError("it holds no vectors.")
        packing = find_packing(field, packed or getattr(table, "packing", None))
        return StoreReader(table, name=name, vectors=vectors, columns=columns, packing=packing, metric=metric)


def _open_table(source: str | Path | NDArray[Any] | Tensor) -> tuple[str, Table]:
    """Return the name of the source for messages, and its table."""
    if not isinstance(source, str | Path):
        table = ArrayTable(source)
        return table.name, table
    text = str(source)
    name = hide_password(text) if "://" in text else text
    with blame(name):
        if text.startswith(PREFIX):
            return name, QdrantTable(text)
        if text.startswith(PREFIXES):
            return name, PostgresTable(text)
        if text in VECTORS and not Path(text).exists():
            return name, open_file(vectors_file(text))
        if is_dataset(text):
            return name, DatasetTable(text)
        return name, _open_path(text)


def _open_path(source: str) -> Table:
    """Open a file or a folder; a table of LanceDB may be named after #."""
    where, _, inside = source.partition("#")
    path = Path(source) if Path(source).exists() else Path(where)
    if path.is_dir():
        lance = find_table(path, inside or None)
        if lance is not None:
            return LanceTable(lance)
        if (path / "meta.json").is_file() and (path / "collection").is_dir():
            raise InputError(f"this is a folder of Qdrant; give {PREFIX}{source}#COLLECTION.")
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            raise InputError(f"this is a folder of the datasets library; give hf:{source}.")
    if path.suffix.lower() in ENDINGS and path.is_file():
        return FaissTable(path)
    return open_file(path)


def _find_columns(table: Table, vectors: str, given: dict[str, Column]) -> tuple[Table, dict[str, str]]:
    """Return the column of each role, and the table with the columns that are not its own."""
    columns: dict[str, str] = {}
    added: dict[str, NDArray[Any]] = {}
    count = table.fields[vectors].shape[0]
    if given["id"] is None:
        given["id"] = next((name for name in ID_COLUMNS if name in table.fields and name != vectors), None)
    for role, column in given.items():
        option = f"--{role}-column"
        if column is None:
            continue
        if isinstance(column, str) and column in table.fields:
            shape = table.fields[column].shape
            if len(shape) != 1:
                raise InputError(f"{option} {column}: expected one value per vector, got {table.fields[column]}.")
            columns[role], rows = column, shape[0]
        else:
            if isinstance(column, str) and not Path(column).is_file():
                raise missing_column(option, column, [name for name in table.fields if name != vectors])
            columns[role] = f"{option}\n"  # no column of a table has this name
            values = (
                read_column_file(Path(column), option) if isinstance(column, str) else to_column(column, option)
            )
            added[columns[role]] = values
            rows = len(added[columns[role]])
        if count is not None and rows is not None and rows != count:
            raise InputError(f"{option} has {rows:,} values for {count:,} vectors. Give one per vector.")
    if isinstance(table, CsvTable):
        table.drop_coordinates(list(columns.values()))
    return (WithColumns(table, added) if added else table), columns
