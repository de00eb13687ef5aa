"""theodolite.measures.Accumulator: the sums of a survey for vectors that arrive in batches, without a model."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.measures.arrays.result import Result, as_vectors
from theodolite.measures.formula import formula_of_column
from theodolite.models.layers import Layer
from theodolite.sources.rows import locate_rows
from theodolite.sources.units import Unit, Units
from theodolite.state.state import State, add_sums
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.tables.tables import SurveyTables, make_tables
from theodolite.text import encodable

CENTRE_ROWS = 4096
"""Rows of the first batch whose median becomes the centre of the sums."""


class Accumulator:
    """Adds up vectors batch by batch, in bounded memory, and measures what it has seen with a survey's formulas.

    Accumulators made on several machines merge exactly: pickle them to send them. Memory is one float64 vector per
    unit, one dim x dim matrix and a sample of `sample_size` vectors, which the intrinsic dimension is taken from.

    >>> numbers = np.random.default_rng(0).normal(size=(600, 8))
    >>> whole, part = Accumulator(), Accumulator()
    >>> whole.update(numbers[:300])
    >>> part.update(numbers[300:])
    >>> whole.merge(part)
    >>> whole.n, round(float(whole["participation_ratio"]), 1)
    (600, 7.9)
    """

    def __init__(self, *, sample_size: int = 4096) -> None:
        if sample_size < 1:
            raise InputError(f"sample_size: expected a number of vectors of at least 1, got {sample_size}.")
        self.sample_size = sample_size
        self.n = 0
        self._key = 0
        self._labelled: bool | None = None
        self._state: State | None = None

    def update(self, x: Any, units: Any = None, *, documents: Any = None) -> None:
        """Add a batch of vectors (vectors, dim), NumPy or torch.

        `units` gives one label per vector, in every batch or in none. `documents` gives one label per vector: rows
        of one document share a group, of which there are 20, and standard errors are over groups.
        """
        vectors = as_vectors(x).cpu()
        if self._labelled is not None and self._labelled != (units is not None):
            raise InputError("units: give labels with every batch or with none.")
        labels = None if units is None else _check_labels(units, len(vectors), "units")
        names = None if documents is None else _check_labels(documents, len(vectors), "documents")
        state = self._state or self._start(vectors, units is not None)
        if vectors.shape[1] != state.folds[0].frame.dim:
            raise InputError(
                f"x: expected vectors of {state.folds[0].frame.dim} coordinates, as before, "
                f"got {vectors.shape[1]}."
            )
        codes = np.zeros(len(vectors), dtype=np.int64)
        if labels is not None:
            keys, inverse = np.unique(labels, return_inverse=True)
            known = np.array([state.units.add(Unit(key, key)) for key in map(encodable, keys.tolist())])
            codes = known[inverse]
        rows = np.arange(self.n, self.n + len(vectors))
        places = locate_rows(
            self._key,
            document=rows if names is None else _hash_names(names),
            window=0,
            position=rows,
            unit=codes,
            context=mix(self._key, rows),
            ordered=False,
        )
        state.folds[0].update(Batch(0, vectors, places))
        self.n += len(vectors)
        self.__dict__.pop("tables", None)

    def merge(self, other: Accumulator) -> None:
        """Add everything that another accumulator has seen; the other one stays as it is."""
        if not isinstance(other, Accumulator):
            raise InputError(f"other: expected an Accumulator, got {type(other).__name__}.")
        if other._state is None:
            return
        if self._state is None:
            self._key, self._labelled = other._key, other._labelled
            fold = other._state.folds[0].copy()
            self._state = State({0: fold}, Units(other._state.units.kind, list(other._state.units.known)))
        elif self._labelled != other._labelled:
            raise InputError("Only one of the two accumulators has units.")
        elif self._state.folds[0].frame.dim != other._state.folds[0].frame.dim:
            dims = (each.folds[0].frame.dim for each in (self._state, other._state))
            raise InputError("The vectors have {} and {} coordinates.".format(*dims))
        else:
            theirs = other._state
            add_sums(self._state, lambda index: theirs.folds[index].copy(), theirs.units, [], 0)
        self.n += other.n
        self.__dict__.pop("tables", None)

    @cached_property
    def tables(self) -> SurveyTables:
        """All tables of a survey of one layer."""
        if self._state is None:
            raise InputError("The accumulator has seen no vectors.")
        layer = Layer(0, "vectors", self._state.folds[0].frame.dim)
        return make_tables(self._state, [layer], ["all"])

    @property
    def measures(self) -> pd.Series:
        """Every number by the name of its column in layers.parquet."""
        return self.tables.layers.iloc[0]

    @property
    def units(self) -> pd.DataFrame:
        """One row per unit: n, Q, M and V."""
        return self.tables.tokens

    def __getitem__(self, column: str) -> Result:
        """Return one number as a result, for example accumulator["mean_cosine"]."""
        row = self.measures
        ids = formula_of_column()
        if column not in row or column not in ids:
            raise InputError(f"{column!r} is not a measure. See the names in .measures.index.")
        value = row[column]
        undefined = pd.isna(value)
        return Result(
            float("nan") if undefined else float(value),
            float(row.get(f"{column}_se", np.nan)),
            int(row["n"]),
            ids[column],
            _reason(row, column) if undefined else None,
        )

    def __repr__(self) -> str:
        return f"Accumulator({self.n:,} vectors)"

    def _start(self, vectors: Tensor, labelled: bool) -> State:
        """Fix the centre, the median of the first rows, about which squares are summed."""
        first = vectors[:CENTRE_ROWS].float()
        frame = Frame(
            first.median(0).values, separate_first=False, separate_massive=False, sample_size=self.sample_size
        )
        # Accumulators of other vectors get another key, so that their rows differ in the sample.
        self._key = int(sha256(first.numpy().tobytes()).hexdigest()[:16], 16)
        self._labelled = labelled
        units = Units("label") if labelled else Units("none", [Unit("(all)", "(all)")])
        self._state = State({0: LayerFold(frame)}, units)
        return self._state


def _check_labels(labels: Any, count: int, name: str) -> NDArray[Any]:
    array = np.asarray(labels.tolist() if isinstance(labels, Tensor) else labels)
    if array.shape != (count,):
        raise InputError(f"{name}: expected one label per vector, {count:,} in all, got the shape {array.shape}.")
    return array.astype(str)


def _hash_names(names: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each name that is the same on every machine. (rows,) -> (rows,)"""
    distinct, inverse = np.unique(names, return_inverse=True)
    digests = [sha256(name.encode("utf-8", "surrogatepass")).digest()[:8] for name in distinct.tolist()]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[inverse]


def _reason(row: pd.Series, column: str) -> str:
    reasons = json.loads(row["undefined"]) if isinstance(row["undefined"], str) else {}
    return str(reasons.get(column, "undefined"))
