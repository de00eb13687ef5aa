"""Reading vectors: .npy, .npz, .safetensors, and .parquet with a list column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError, nearest


@dataclass(frozen=True)
class Vectors:
    """Matrices of equally many rows, each to be measured as a layer, and a label for every row if asked for."""

    matrices: dict[str, NDArray[Any]]  # name -> (vectors, dim)
    labels: NDArray[Any] | None = None  # (vectors,)

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return len(next(iter(self.matrices.values())))


def read_vectors(path: Path, *, column: str | None = None, groups: str | None = None) -> Vectors:
    """Read the matrices of a file, or the one named `column`.

    `groups` names the labels beside them, or, as an .npy has room for nothing else, the file that holds them.
    """
    if path.is_dir():
        raise InputError(f"FILE {str(path)!r} is a folder; give a file in it: {', '.join(READERS)}.")
    if not path.is_file():
        raise InputError(f"FILE {str(path)!r}: there is no such file.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"FILE {str(path)!r}: wanted one of {', '.join(READERS)}, not {path.suffix or 'no ending'!r}."
        )
    try:
        arrays = reader(path, column, groups)
    except InputError:
        raise
    except ValueError as error:
        if path.suffix.lower() in (".npy", ".npz"):  # numpy takes anything else for a pickle, and says so
            raise InputError(
                f"FILE {str(path)!r} cannot be read: wanted numbers as numpy.save or numpy.savez writes them."
            ) from error
        raise InputError(f"FILE {str(path)!r} cannot be read as {path.suffix}: {error}") from error
    except Exception as error:  # each format's library has errors of its own
        raise InputError(f"FILE {str(path)!r} cannot be read as {path.suffix}: {error}") from error
    if groups is not None and path.suffix.lower() == ".npy":
        arrays[groups] = _labels_file(Path(groups), path)
    labels = _labels(arrays, path, groups)
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiu"}
    if column is not None:
        matrices = {column: _named(arrays, column, "--column", path)}
        if matrices[column].ndim != 2:
            raise InputError(
                f"--column {column}: wanted a matrix (vectors, dim), got shape {matrices[column].shape}."
            )
    _check(path, arrays, matrices, labels)
    return Vectors({name: real(array) for name, array in matrices.items()}, labels)


def _npy(path: Path, column: str | None, groups: str | None) -> dict[str, NDArray[Any]]:
    if column is not None:
        raise InputError(f"--column {column}: {path.name} holds one array and no columns; leave --column out.")
    return {"vectors": np.load(path, mmap_mode="r", allow_pickle=False)}


def _npz(path: Path, column: str | None, groups: str | None) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _safetensors(path: Path, column: str | None, groups: str | None) -> dict[str, NDArray[Any]]:
    from safetensors.torch import load_file

    tensors = load_file(path)
    return {
        name: (tensor.float() if tensor.is_floating_point() and tensor.element_size() == 2 else tensor).numpy()
        for name, tensor in tensors.items()
    }


def _parquet(path: Path, column: str | None, groups: str | None) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    lists = [f.name for f in schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    lists += [f.name for f in schema if pa.types.is_large_list(f.type)]
    chosen = [column] if column is not None else lists
    for option, name in (("--column", column), ("--groups", groups)):
        if name is not None and name not in schema.names:
            raise _missing(option, name, schema.names, path)
    if not chosen:
        raise InputError(f"FILE {path.name!r} has no list column; its columns are {', '.join(schema.names)}.")
    if not set(chosen) <= set(lists):
        raise InputError(f"--column {column}: wanted lists of numbers, but it holds {schema.field(column).type}.")
    wanted = [*chosen, *([groups] if groups is not None else [])]
    table = pq.read_table(path, columns=wanted)
    arrays: dict[str, NDArray[Any]] = {}
    for name in chosen:
        arrays[name] = _matrix(table[name].combine_chunks(), name)
    if groups is not None:
        arrays[groups] = np.array(table[groups].to_pylist(), dtype=object)
    return arrays


def _matrix(column: Any, name: str) -> NDArray[Any]:
    import pyarrow.compute as pc

    if column.null_count:
        raise InputError(f"--column {name}: {column.null_count} rows have no vector; leave them out first.")
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1:
        raise InputError(
            f"--column {name}: vectors must have one length; lengths {sorted(lengths)[:4]} were found."
        )
    values = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(column), lengths[0])


READERS: dict[str, Callable[[Path, str | None, str | None], dict[str, NDArray[Any]]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
}


def _labels(arrays: dict[str, NDArray[Any]], path: Path, groups: str | None) -> NDArray[Any] | None:
    if groups is None:
        return None
    labels = _named(arrays, groups, "--groups", path)
    if labels.ndim != 1:
        raise InputError(f"--groups {groups}: wanted one label a vector, got an array of shape {labels.shape}.")
    return labels


def _labels_file(file: Path, vectors: Path) -> NDArray[Any]:
    """Read the labels of an .npy from a file of their own: .npy, or .txt of one label a line."""
    if file.suffix.lower() not in (".npy", ".txt"):
        raise InputError(
            f"--groups {str(file)!r}: {vectors.name} holds one array and no columns; give a file of labels, .npy "
            "or .txt (one a line), or save both in one .npz with numpy.savez(file, vectors=..., labels=...)."
        )
    if not file.is_file():
        raise InputError(f"--groups {str(file)!r}: there is no such file.")
    try:
        if file.suffix.lower() == ".npy":
            return np.asarray(np.load(file, allow_pickle=False))
        lines = file.read_text("utf-8-sig").removesuffix("\n").split("\n")
    except (ValueError, EOFError) as error:
        raise InputError(
            f"--groups {str(file)!r} cannot be read: wanted labels as numpy.save writes numbers or strings (no "
            "objects), or a .txt in UTF-8, one label a line."
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
    path: Path, arrays: dict[str, NDArray[Any]], matrices: dict[str, NDArray[Any]], labels: NDArray[Any] | None
) -> None:
    if not matrices:
        shapes = ", ".join(f"{name} {array.dtype} {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"FILE {path.name!r}: wanted a numeric matrix (vectors, dim); it holds {shapes or 'nothing'}."
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
    if labels is not None and len(labels) != count:
        raise InputError(f"--groups has {len(labels):,} labels for {count:,} vectors.")


def real(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats that PyTorch takes: integers and odd widths become float64, byte order ours."""
    if array.dtype in (np.float16, np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float64)
