"""The vector source: rows of matrices, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.batch import Batch, Places
from theodolite.hashing import mix
from theodolite.sources.layers import Layer
from theodolite.sources.places import places
from theodolite.sources.source import Sink
from theodolite.sources.units import Unit, Units, encodable
from theodolite.sources.vectors.files import Vectors


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of every matrix."""

    rows: NDArray[np.int64]
    places: Places

    @property
    def positions(self) -> int:
        """How many rows each layer will give."""
        return len(self.rows)


class VectorSource:
    """Matrices as layers, labels as units; a document is an array of row numbers."""

    def __init__(self, vectors: Vectors, corpus_key: int) -> None:
        self.vectors = vectors
        self.corpus_key = corpus_key
        self.layers = tuple(
            Layer(index, name, int(matrix.shape[1]))
            for index, (name, matrix) in enumerate(vectors.matrices.items())
        )
        if vectors.labels is None:
            self.units = Units("none", [Unit("(all)", "(all)")])
            self._codes = np.zeros(vectors.count, dtype=np.int64)
        else:
            names, codes = np.unique(np.array([str(label) for label in vectors.labels]), return_inverse=True)
            # As the table spells them, from which they are read again: else they would not merge with themselves.
            self.units = Units("group", [Unit(name, name) for name in map(encodable, names.tolist())])
            self._codes = codes.astype(np.int64).reshape(-1)

    def prepare(self, documents: Sequence[tuple[int, NDArray[np.int64]]]) -> list[Block]:
        """Find where the rows stand; every vector is a document of its own, and none is a window's first."""
        return [self._block(rows) for _, rows in documents]

    def units_of(self, prepared: Block) -> list[int]:
        """Return the codes of the units in a batch."""
        return [int(code) for code in torch.unique(prepared.places.unit)]

    def run(self, prepared: Block, sink: Sink) -> None:
        """Hand over the rows of each matrix."""
        for layer, matrix in zip(self.layers, self.vectors.matrices.values(), strict=True):
            sink(Batch(layer.index, torch.from_numpy(np.array(matrix[prepared.rows])), prepared.places))

    def _block(self, rows: NDArray[np.int64]) -> Block:
        where = places(
            self.corpus_key,
            document=rows,
            window=0,
            position=np.ones(len(rows), dtype=np.int64),
            unit=self._codes[rows],
            context=mix(self.corpus_key, rows),
        )
        order = where.by_unit()
        return Block(rows[order.numpy()], where.take(order))
