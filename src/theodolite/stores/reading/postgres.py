"""A table of PostgreSQL with pgvector: postgresql://USER@HOST/DATABASE#[SCHEMA.]TABLE[.COLUMN]."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, first_line
from theodolite.sources.stored.table import TEXT, Batch, Field
from theodolite.sources.stored.text_files import parse_vector, stack_vectors
from theodolite.stores.reading.extras import require

PREFIXES = ("postgresql://", "postgres://")
_FORM = "postgresql://USER@HOST/DATABASE#TABLE.COLUMN"
_TYPES = {
    "vector": "float32", "halfvec": "float16", "real[]": "float32", "double precision[]": "float64",
}  # fmt: skip
_METRICS = {"cosine": "cosine", "ip": "dot", "l2": "euclidean"}
_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_PRIMARY_KEY = """
    SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indrelid = %s::regclass AND indisprimary ORDER BY array_position(indkey, attnum)"""
_OPERATORS = """
    SELECT opcname FROM pg_index JOIN pg_opclass ON pg_opclass.oid = ANY(indclass)
    WHERE indrelid = %s::regclass"""


def split_source(source: str) -> tuple[str, list[str]]:
    """Return the address of the database, and the names after #: [schema,] table [, column].

    >>> split_source("postgresql://me@host/db#docs.embedding")
    ('postgresql://me@host/db', ['docs', 'embedding'])
    """
    address, _, names = source.partition("#")
    parts = names.split(".") if names else []
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise InputError(f"the table is missing; give {_FORM}.")
    return address, parts


def hide_password(source: str) -> str:
    """Return an address without its password.

    >>> hide_password("postgresql://me:secret@host:5432/db#docs.embedding")
    'postgresql://me@host:5432/db#docs.embedding'
    """
    parts = urlsplit(source)
    user, at, host = parts.netloc.rpartition("@")
    query = re.sub(r"(^|&)password=[^&]*", "", parts.query)
    return urlunsplit(parts._replace(netloc=user.partition(":")[0] + at + host, query=query))


class PostgresTable:
    """The rows of a table, all in one snapshot, in the order of the primary key, or of storage without one."""

    notes: tuple[str, ...] = ()

    def __init__(self, source: str) -> None:
        self._psycopg = require("psycopg", "psycopg")
        address, names = split_source(source)
        try:
            self._connection = self._psycopg.connect(address)
        except self._psycopg.OperationalError as error:
            raise InputError(f"the server cannot be reached: {first_line(error)}") from error
        self._connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
        self._connection.read_only = True
        self._cursors = count()
        self._table, self.column = self._find_table(names)
        self._shown = self._table.as_string(self._connection)
        types = dict(self._ask(_COLUMNS, self._shown))
        self._key = [name for (name,) in self._ask(_PRIMARY_KEY, self._shown)]
        rows = self._ask(self._compose("SELECT count(*) FROM {table}"))[0][0]
        self.fields = {name: self._field(name, kind, rows) for name, kind in types.items()}
        operators = [
            name.removesuffix("_ops").rpartition("_")[2] for (name,) in self._ask(_OPERATORS, self._shown)
        ]
        self.metric = next((_METRICS[name] for name in operators if name in _METRICS), None)

    def _ask(self, query: Any, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(query, values or None).fetchall())

    def _compose(self, query: str, **names: Any) -> Any:
        return self._psycopg.sql.SQL(query).format(table=self._table, **names)

    def _find_table(self, names: list[str]) -> tuple[Any, str | None]:
        """Return the table and the column: a.b is column b of table a, or else table b of schema a."""
        for split in (len(names) - 1, len(names)):
            if split and len(names[:split]) <= 2:
                table = self._psycopg.sql.Identifier(*names[:split])
                shown = table.as_string(self._connection)
                if self._ask("SELECT to_regclass(%s)", shown)[0][0] is not None:
                    return table, names[split] if split < len(names) else None
        raise InputError(f"the database has no table {'.'.join(names[:-1]) or names[0]!r}; give {_FORM}.")

    def _field(self, name: str, kind: str, rows: int) -> Field:
        base, _, size = kind.partition("(")
        dtype = _TYPES.get(base.rpartition(".")[2])
        if dtype is None:
            return Field(TEXT, (rows,))
        if size.rstrip(")").isdigit():
            return Field(dtype, (rows, int(size.rstrip(")"))))
        column = self._psycopg.sql.Identifier(name)
        query = self._compose(
            "SELECT {column}::text FROM {table} WHERE {column} IS NOT NULL LIMIT 1", column=column
        )
        first = [parse_vector(text) for (text,) in self._ask(query)]
        return Field(dtype, (rows, len(first[0]) if first and first[0] is not None else 0))

    def select(self, names: Sequence[str], start: int) -> Any:
        """Return the query for rows from number `start` on; vectors come as text."""
        sql = self._psycopg.sql
        chosen = [
            sql.SQL("{}::text").format(sql.Identifier(name))
            if self.fields[name].is_matrix
            else sql.Identifier(name)
            for name in names
        ]
        order = sql.SQL(", ").join(map(sql.Identifier, self._key)) if self._key else sql.SQL("ctid")
        return self._compose(
            "SELECT {chosen} FROM {table} ORDER BY {order} OFFSET {start}",
            chosen=sql.SQL(", ").join(chosen),
            order=order,
            start=sql.Literal(start),
        )

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield rows through a cursor of the server, so that only one block is held."""
        row = start
        with self._connection.cursor(name=f"theodolite_{next(self._cursors)}") as cursor:
            cursor.execute(self.select(names, start))
            while part := cursor.fetchmany(rows):
                columns = zip(*part, strict=True)
                yield {name: self._column(name, values, row) for name, values in zip(names, columns, strict=True)}
                row += len(part)

    def _column(self, name: str, values: Sequence[Any], row: int) -> NDArray[Any]:
        field = self.fields[name]
        if field.is_matrix:
            return stack_vectors(values, field.shape[1] or 0, row).astype(field.dtype)
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made

    def digest(self) -> str:
        """Return a digest of all rows, computed by the server; it does not depend on their order."""
        query = "SELECT count(*), sum(hashtextextended(row_hashed::text, 0)::numeric) FROM {table} AS row_hashed"
        return sha256(f"{self._shown} {self._ask(self._compose(query))}".encode()).hexdigest()

    def state(self) -> Hashable:
        """All passes read one snapshot, which does not change."""
        return str(self._shown)
