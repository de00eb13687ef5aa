"""A collection of Qdrant, scrolled over the client: qdrant:FOLDER#COLLECTION or qdrant:http://HOST:PORT#COLLECTION."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from theodolite.errors import InputError, nearest
from theodolite.sources.stored.table import TEXT, Batch, Field
from theodolite.sources.stored.text_files import stack_vectors
from theodolite.stores.reading.extras import require

PREFIX = "qdrant:"
_PAGE = 1000  # points in one answer
_HEAD = 256  # points whose payload is searched for names of columns
_METRICS = {"Cosine": "cosine", "Dot": "dot", "Euclid": "euclidean"}
_clients: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Open clients: a folder can be opened only once at a time."""


class QdrantTable:
    """The points of a collection in the order of their ids; their payload has the other columns.

    A key of a server is read from the environment variable QDRANT_API_KEY.
    """

    metric: str | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, source: str) -> None:
        where, _, name = source.removeprefix(PREFIX).partition("#")
        self._client = _connect(where)
        known = sorted(found.name for found in self._client.get_collections().collections)
        if not name and len(known) == 1:
            name = known[0]
        if name not in known:
            raise InputError(
                f"it has the collections {', '.join(known) or '(none)'} (got {name or 'none'}); give "
                f"{PREFIX}{where}#COLLECTION.{nearest(name, known)}"
            )
        self._name = name
        self._local = None if "://" in where else Path(where) / "collection" / name / "storage.sqlite"
        params = self._client.get_collection(name).config.params.vectors
        self._single = not isinstance(params, dict)
        vectors: dict[str, Any] = {"vector": params} if self._single else dict(params)
        count = self._client.count(name, exact=True).count
        self.fields = {"id": Field(TEXT, (count,))}
        for point in self._scroll(None, _HEAD, payload=True, vectors=False)[0]:
            self.fields |= {key: Field(TEXT, (count,)) for key in point.payload or {}}
        single = {key: part for key, part in vectors.items() if part.multivector_config is None}
        for key, part in single.items():
            metric = _METRICS.get(part.distance.value)
            self.fields[key] = Field(_dtype(part), (count, part.size), metric)
            if metric == "cosine":
                self.notes = ("Qdrant normalises the vectors of a cosine collection: their lengths may be lost.",)

    def _scroll(self, offset: Any, limit: int, *, payload: Any, vectors: Any) -> tuple[list[Any], Any]:
        points, after = self._client.scroll(
            self._name, limit=limit, offset=offset, with_payload=payload, with_vectors=vectors
        )
        return list(points), after

    def batches(self, names: Sequence[str], start: int, rows: int) -> Iterator[Batch]:
        """Yield pages of points; those before `start` are scrolled without their vectors."""
        chosen = [name for name in names if self.fields[name].is_matrix]
        payload = [name for name in names if name not in chosen and name != "id"]
        offset, row = None, 0
        while row < start:
            points, offset = self._scroll(offset, min(_PAGE, start - row), payload=False, vectors=False)
            row += len(points)
            if offset is None:
                return
        while True:
            points, offset = self._scroll(
                offset, min(rows, _PAGE), payload=payload or False, vectors=True if self._single else chosen
            )
            if points:
                yield {name: self._column(points, name, row) for name in names}
            row += len(points)
            if offset is None:
                return

    def _column(self, points: list[Any], name: str, row: int) -> Any:
        field = self.fields[name]
        if field.is_matrix:
            values = [point.vector if self._single else (point.vector or {}).get(name) for point in points]
            return stack_vectors(values, field.shape[1] or 0, row).astype(np.float32)
        made = np.empty(len(points), dtype=object)
        made[:] = [point.id if name == "id" else (point.payload or {}).get(name) for point in points]
        return made

    def digest(self) -> str:
        """Return the digest of the file of a local collection; of a server, of its settings and first points."""
        if self._local is not None:
            return sha256(self._local.read_bytes()).hexdigest()
        points, _ = self._scroll(None, _HEAD, payload=False, vectors=True)
        facts = [str(self.fields), *(f"{point.id} {point.vector}" for point in points)]
        return sha256("\n".join(facts).encode()).hexdigest()

    def state(self) -> Hashable:
        """Return the number of points."""
        return int(self._client.count(self._name, exact=True).count)


def _connect(where: str) -> Any:
    qdrant = require("qdrant_client", "qdrant-client")
    if (client := _clients.get(where)) is not None:
        return client
    if "://" in where:
        client = qdrant.QdrantClient(url=where, api_key=os.environ.get("QDRANT_API_KEY"))
    elif (Path(where) / "meta.json").is_file():
        client = qdrant.QdrantClient(path=where)
    else:
        raise InputError(
            f"{where!r} is no folder of Qdrant's local mode, which has a file meta.json; give one, or the address "
            "of a server: qdrant:http://HOST:6333#COLLECTION."
        )
    _clients[where] = client
    return client


def _dtype(part: Any) -> str:
    return "float16" if part.datatype is not None and part.datatype.value == "float16" else "float32"
