"""Vectors from files as a source: the same statistics without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.batch import Batch, Places
from theodolite.errors import InputError, nearest
from theodolite.hashing import mix
from theodolite.models.layers import Layer
from theodolite.sources.rows import locate_rows
from theodolite.sources.source import Sink
from theodolite.sources.stored.formats import FORMATS, open_file
from theodolite.sources.stored.table import choose_matrix
from theodolite.sources.units import Unit, Units
from theodolite.text import encodable

_ROWS = 8192  # rows read at a time


@dataclass(frozen=True)
class Vectors:
    """Matrices with the same number of rows, each measured as a layer, and optionally a label for every row."""

    matrices: dict[str, NDArray[Any]]  # name -> (vectors, dim)
    labels: NDArray[Any] | None = None  # (vectors,); None and NaN are missing labels
    by: NDArray[Any] | None = None  # (vectors,) the values of the field that groups vectors

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(next(iter(self.matrices.values())))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of the rows to measure: all, or those that have a label."""
        if self.labels is None:
            return np.arange(self.count)
        return np.flatnonzero(~pd.isna(self.labels))


Named = dict[str, str]
"""Columns of labels by the option that names them."""


def read_vectors(
    path: Path, *, column: str | None = None, groups: str | None = None, by: str | None = None
) -> Vectors:
    """Read the matrices of a file, or the one named `column`.

    `groups` and `by` are names of labels in the file, or, for an .npy, which holds one array, files of labels.
    """
    named: Named = {option: name for option, name in (("--groups", groups), ("--by", by)) if name is not None}
    if path.is_dir():
        raise InputError(f"FILE {str(path)!r} is a folder; give a file in it: {', '.join(FORMATS)}.")
    if not path.is_file():
        raise InputError(f"FILE {str(path)!r}: there is no such file.")
    reader = READERS.get(path.suffix.lower()) or (_stored if path.suffix.lower() in FORMATS else None)
    if reader is None:
        raise InputError(
            f"FILE {str(path)!r} is not a file of vectors: the name must end in one of {', '.join(FORMATS)}."
        )
    try:
        arrays = reader(path, column, named)
    except InputError:
        raise
    except ValueError as error:
        if path.suffix.lower() in (".npy", ".npz"):  # numpy takes anything else for a pickle and reports that
            raise InputError(
                f"FILE {str(path)!r} cannot be read: expected numbers as numpy.save or numpy.savez writes them."
            ) from error
        raise InputError(f"FILE {str(path)!r} cannot be read as {path.suffix}: {error}") from error
    except Exception as error:  # the library of each format has its own errors
        raise InputError(f"FILE {str(path)!r} cannot be read as {path.suffix}: {error}") from error
    if path.suffix.lower() == ".npy":
        arrays |= {name: _labels_file(Path(name), path, option) for option, name in named.items()}
    labels = {option: _labels(arrays, path, option, name) for option, name in named.items()}
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiu"}
    if column is not None:
        matrices = {column: _named(arrays, column, "--column", path)}
        if matrices[column].ndim != 2:
            raise InputError(
                f"--column {column}: expected a matrix (vectors, dim), got shape {matrices[column].shape}."
            )
    _check(path, arrays, matrices, labels)
    for name, array in matrices.items():
        if array.dtype.itemsize == 1:
            raise InputError(
                f"FILE {path.name!r}: {name} is in {array.dtype}, which may be packed signs or quantized numbers. "
                "Convert it to floats, or use `theodolite store`, which has --packed."
            )
    floats = {name: to_float(array) for name, array in matrices.items()}
    return Vectors(floats, labels.get("--groups"), labels.get("--by"))


def _npy(path: Path, column: str | None, named: Named) -> dict[str, NDArray[Any]]:
    if column is not None:
        raise InputError(f"--column {column}: {path.name} holds one array and no columns; omit --column.")
    return {"vectors": np.load(path, mmap_mode="r", allow_pickle=False)}


def _npz(path: Path, column: str | None, named: Named) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _safetensors(path: Path, column: str | None, named: Named) -> dict[str, NDArray[Any]]:
    from safetensors.torch import load_file

    tensors = load_file(path)
    return {
        name: (tensor.float() if tensor.is_floating_point() and tensor.element_size() == 2 else tensor).numpy()
        for name, tensor in tensors.items()
    }


def _parquet(path: Path, column: str | None, named: Named) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    lists = [f.name for f in schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    lists += [f.name for f in schema if pa.types.is_large_list(f.type)]
    chosen = [column] if column is not None else lists
    for option, asked in (("--column", column), *named.items()):
        if asked is not None and asked not in schema.names:
            raise _missing(option, asked, schema.names, path)
    if not chosen:
        raise InputError(f"FILE {path.name!r} has no list column; its columns are {', '.join(schema.names)}.")
    if not set(chosen) <= set(lists):
        raise InputError(f"--column {column}: expected lists of numbers, got {schema.field(column).type}.")
    labels = [name for name in dict.fromkeys(named.values()) if name not in chosen]
    table = pq.read_table(path, columns=[*chosen, *labels])
    arrays: dict[str, NDArray[Any]] = {}
    for name in chosen:
        arrays[name] = _matrix(table[name].combine_chunks(), name)
    for name in labels:
        arrays[name] = _objects(table[name].to_pylist())
    return arrays


def _objects(values: list[Any]) -> NDArray[Any]:
    """Return an array of objects (values,), also of lists of one length."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _matrix(column: Any, name: str) -> NDArray[Any]:
    import pyarrow.compute as pc

    if column.null_count:
        raise InputError(f"--column {name}: {column.null_count} rows have no vector; remove them first.")
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1:
        raise InputError(
            f"--column {name}: all vectors must have the same length (got lengths {sorted(lengths)[:4]})."
        )
    values = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(column), lengths[0])


def _stored(path: Path, column: str | None, named: Named) -> dict[str, NDArray[Any]]:
    """Read a file of any other format that stores are read from."""
    table = open_file(path)
    name = choose_matrix(table.fields, column)
    for option, asked in named.items():
        if asked not in table.fields:
            raise _missing(option, asked, list(table.fields), path)
    names = list(dict.fromkeys([name, *named.values()]))
    batches = list(table.batches(names, 0, _ROWS))
    if not batches:
        raise InputError(f"FILE {path.name!r} holds no vectors.")
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}


READERS: dict[str, Callable[[Path, str | None, Named], dict[str, NDArray[Any]]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
}


def _labels(arrays: dict[str, NDArray[Any]], path: Path, option: str, name: str) -> NDArray[Any]:
    labels = _named(arrays, name, option, path)
    if labels.ndim != 1:
        raise InputError(f"{option} {name}: expected one label per vector, got an array of shape {labels.shape}.")
    return labels


def _labels_file(file: Path, vectors: Path, option: str) -> NDArray[Any]:
    """Read the labels of an .npy from a separate file: .npy, or .txt with one label per line."""
    if file.suffix.lower() not in (".npy", ".txt"):
        raise InputError(
            f"{option} {str(file)!r}: {vectors.name} holds one array and no columns; give a file of labels, .npy "
            "or .txt (one per line), or save both in one .npz with numpy.savez(file, vectors=..., labels=...)."
        )
    if not file.is_file():
        raise InputError(f"{option} {str(file)!r}: there is no such file.")
    return read_column_file(file, option)


def read_column_file(file: Path, option: str) -> NDArray[Any]:
    """Read a column from a file of its own: .npy, or text with one value per line."""
    try:
        if file.suffix.lower() == ".npy":
            return np.asarray(np.load(file, allow_pickle=False))
        lines = file.read_text("utf-8-sig").removesuffix("\n").split("\n")
    except (ValueError, EOFError) as error:
        raise InputError(
            f"{option} {str(file)!r} cannot be read: expected numbers or strings as numpy.save writes them (no "
            "objects), or a .txt in UTF-8 with one value per line."
        ) from error
    return np.array(lines, dtype=object)


def _named(arrays: dict[str, NDArray[Any]], name: str, option: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise _missing(option, name, list(arrays), path)
    return arrays[name]


def _missing(option: str, name: str, present: list[str], path: Path) -> InputError:
    return InputError(
        f"{option} {name!r} is not in {path.name}, which has {', '.join(present)}.{nearest(name, present)}"
    )


def _check(
    path: Path,
    arrays: dict[str, NDArray[Any]],
    matrices: dict[str, NDArray[Any]],
    labels: dict[str, NDArray[Any]],
) -> None:
    if not matrices:
        shapes = ", ".join(f"{name}: {array.dtype} of shape {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"FILE {path.name!r}: expected a numeric matrix (vectors, dim) (got {shapes or 'nothing'})."
        )
    counts = {name: len(matrix) for name, matrix in matrices.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
        raise InputError(
            f"FILE {path.name!r} holds matrices of different lengths: {listed}; choose one with --column."
        )
    count = next(iter(counts.values()))
    if count == 0 or any(matrix.shape[1] == 0 for matrix in matrices.values()):
        raise InputError(f"FILE {path.name!r} holds no vectors.")
    for option, given in labels.items():
        if len(given) != count:
            raise InputError(
                f"{option} has {len(given):,} labels for {count:,} vectors. Give one label per vector."
            )


def to_float(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats that PyTorch accepts: integers and other widths become float64, in native byte order."""
    if array.dtype in (np.float16, np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float64)


def _check_size(chosen: NDArray[Any], rows: NDArray[np.int64], name: str) -> None:
    """Reject finite numbers that float32, in which samples and centres are stored, cannot hold."""
    if chosen.dtype != np.float64:
        return
    large = (np.abs(chosen) > np.finfo(np.float32).max) & np.isfinite(chosen)
    if large.any():
        row, coordinate = np.argwhere(large)[0]
        raise InputError(
            f"{name}: row {rows[row]} has a coordinate of {chosen[row, coordinate]:.3g}, whose square overflows. "
            "Divide all vectors by a constant: cosines, shares and dimensions do not depend on it."
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A block of rows of every matrix."""

    rows: NDArray[np.int64]
    places: Places

    @property
    def positions(self) -> int:
        """The number of rows of each layer."""
        return len(self.rows)


class VectorSource:
    """Matrices as layers, labels as units; a document is an array of row numbers."""

    def __init__(self, vectors: Vectors, corpus_key: int, by: NDArray[np.int64] | None = None) -> None:
        self.vectors = vectors
        self.corpus_key = corpus_key
        self._by = by  # (vectors,) the group of each vector by a field
        self.layers = tuple(
            Layer(index, name, int(matrix.shape[1]))
            for index, (name, matrix) in enumerate(vectors.matrices.items())
        )
        if vectors.labels is None:
            self.units = Units("none", [Unit("(all)", "(all)")])
            self._codes = np.zeros(vectors.count, dtype=np.int64)
        else:
            given = np.array([str(label) for label in vectors.labels[vectors.rows]])
            names, codes = np.unique(given, return_inverse=True)
            # As tables store them: a survey is read from its tables again, and must merge with itself.
            self.units = Units("group", [Unit(name, name) for name in map(encodable, names.tolist())])
            self._codes = np.zeros(vectors.count, dtype=np.int64)
            self._codes[vectors.rows] = codes.reshape(-1)

    def prepare(self, documents: Sequence[tuple[int, NDArray[np.int64]]]) -> list[Block]:
        """Return the rows as blocks; every vector is a document of its own, and none is a first position."""
        return [self._block(rows) for _, rows in documents]

    def units_of(self, prepared: Block) -> list[int]:
        """Return the codes of the units in a batch."""
        return [int(code) for code in torch.unique(prepared.places.unit)]

    def run(self, prepared: Block, sink: Sink) -> None:
        """Pass the rows of each matrix to the sink."""
        for layer, matrix in zip(self.layers, self.vectors.matrices.values(), strict=True):
            chosen = np.array(matrix[prepared.rows])
            _check_size(chosen, prepared.rows, layer.name)
            sink(Batch(layer.index, torch.from_numpy(chosen), prepared.places))

    def _block(self, rows: NDArray[np.int64]) -> Block:
        where = locate_rows(
            self.corpus_key,
            document=rows,
            window=0,
            position=np.ones(len(rows), dtype=np.int64),
            unit=self._codes[rows],
            context=mix(self.corpus_key, rows),
            by=None if self._by is None else self._by[rows],
        )
        order = where.by_unit()
        return Block(rows[order.numpy()], where.take(order))
