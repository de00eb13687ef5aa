"""Samples of documents of a store: those of smallest hash, with at most some rows of each.

Which documents are chosen depends on their names only, so two stores are sampled alike, and the sample does not
depend on the order of rows, on blocks or on how a store was split. Documents are chosen rather than rows:
otherwise many rows of a document would be chosen in a small store and one in a large store, which differ by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.hashing import mix, text_hash
from theodolite.stores.reader import Block, Reader

Keys = NDArray[np.uint64]
ROWS_PER_DOCUMENT = 16
"""More rows of a document add little, since they resemble each other."""


@dataclass
class DocumentSample:
    """The rows of at most `size` documents, ordered by the hash of the document and then of the row.

    document, row  (rows,) hashes
    vectors        (rows, dim) as stored
    """

    size: int
    document: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    row: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    vectors: NDArray[Any] | None = None

    def update(self, document: Keys, row: Keys, vectors: NDArray[Any]) -> None:
        """Add rows with the hashes of their documents and their own."""
        if self.vectors is not None:
            document, row = np.concatenate([self.document, document]), np.concatenate([self.row, row])
        order = np.lexsort((row, document))
        start = np.flatnonzero(np.r_[True, document[order][1:] != document[order][:-1]])
        sizes = np.diff(np.r_[start, len(order)])
        rank = np.arange(len(order)) - np.repeat(start, sizes)
        last = start[self.size] if len(start) > self.size else len(order)
        chosen = order[:last][rank[:last] < ROWS_PER_DOCUMENT]
        held = 0 if self.vectors is None else len(self.vectors)
        new = chosen >= held
        kept = np.empty((len(chosen), vectors.shape[1]), vectors.dtype)
        kept[new] = vectors[chosen[new] - held]
        if self.vectors is not None:
            kept[~new] = self.vectors[chosen[~new]]
        self.document, self.row, self.vectors = document[chosen], row[chosen], kept

    def merge(self, other: DocumentSample) -> None:
        """Add the rows of another sample of the same size."""
        if other.vectors is not None:
            self.update(other.document, other.row, other.vectors)

    def choose(self, rows: int, per_document: int) -> NDArray[np.int64]:
        """Return the positions of at most `rows` rows, and at most `per_document` of each document."""
        _, start, sizes = np.unique(self.document, return_index=True, return_counts=True)
        rank = np.arange(len(self.document)) - np.repeat(start, sizes)
        documents = max(1, int((np.cumsum(np.minimum(sizes, per_document)) <= rows).sum()))
        return np.flatnonzero((rank < per_document) & (np.repeat(np.arange(len(start)), sizes) < documents))

    def count(self, per_document: int) -> int:
        """Return the number of rows with at most `per_document` of each document."""
        return int(np.minimum(np.unique(self.document, return_counts=True)[1], per_document).sum())


def choose_both(a: DocumentSample, b: DocumentSample, rows: int) -> list[NDArray[np.int64]]:
    """Return positions of about `rows` rows of each sample, from as many documents as possible.

    Both take at most the same number of rows of a document: the smallest with which both have enough rows.
    """
    limits = range(1, ROWS_PER_DOCUMENT + 1)
    enough = (limit for limit in limits if min(a.count(limit), b.count(limit)) >= rows)
    limit = next(enough, ROWS_PER_DOCUMENT)
    return [sample.choose(rows, limit) for sample in (a, b)]


def hash_names(values: NDArray[Any], otherwise: Keys) -> Keys:
    """Return a hash of each value as text, so that 12 and "12" are equal; of missing values, `otherwise`.

    >>> zeros = np.zeros(2, np.uint64)
    >>> (hash_names(np.array([12, 3]), zeros) == hash_names(np.array(["12", None]), zeros)).tolist()
    [True, False]
    """
    codes, names = pd.factorize(values)
    hashes = np.array([text_hash(str(name)) for name in names] or [0], dtype=np.uint64)
    return np.where(codes >= 0, hashes[codes], otherwise)


def name_rows(reader: Reader, block: Block, groups: str | None) -> tuple[Keys, Keys]:
    """Return the hashes of the documents of a block and of its rows: of their names, or else of row numbers."""
    numbers = mix(text_hash(reader.digest), block.rows)
    row = hash_names(block.columns["id"], numbers) if "id" in block.columns else numbers
    if groups is None:
        return row, row
    if groups not in block.columns:
        known = ", ".join(block.columns) or "none"
        raise InputError(f"{reader.name}: --groups: no column {groups!r} (columns: {known}).")
    return hash_names(block.columns[groups], row), row
