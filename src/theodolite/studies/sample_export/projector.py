"""The sample for TensorBoard's projector: tensors and metadata of each layer, and the list of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.sample_export.one_line import one_line
from theodolite.surveys.files import write_beside

CONFIG = "projector_config.pbtxt"
OURS = re.compile(r"layer-\d+\.(tensors|metadata)\.tsv|projector_config\.pbtxt")
LIMIT = 10_000
"""Points that the projector's own t-SNE and UMAP can still take in a browser."""
SHOWN = "text unit special n document window position norm".split()


class Embedding(NamedTuple):
    """One layer as the list names it."""

    name: str
    tensors: str
    metadata: str | None
    shape: tuple[int, int]


def claim(folder: Path) -> None:
    """Make the folder; what an earlier export left in it goes, anything else is refused."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; the projector wants a folder.")
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    foreign = [path.name for path in present if not OURS.fullmatch(path.name)]
    if foreign:
        raise InputError(
            f"--out {folder} holds files that no export made ({', '.join(foreign[:4])}); choose another folder."
        )
    for path in present:
        path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def write_layer(
    folder: Path, layer: int, name: str, told: pd.DataFrame, vectors: NDArray[np.float32]
) -> Embedding:
    """Write the vectors of one layer, every digit that a float32 has, and a line about each."""
    if vectors.shape[1] < 2:
        raise InputError(f"--to projector: layer {layer} has one coordinate, and the projector takes 2 or more.")
    tensors, metadata = f"layer-{layer:02d}.tensors.tsv", f"layer-{layer:02d}.metadata.tsv"
    write_beside(folder / tensors, lambda path: _write_vectors(path, vectors))
    text = metadata_text(told)
    if text:
        write_beside(folder / metadata, lambda path: _write_text(path, text))
    return Embedding(f"{layer:02d} {name}", tensors, metadata if text else None, (len(vectors), vectors.shape[1]))


def write_config(folder: Path, embeddings: list[Embedding]) -> None:
    """Write the list of layers, last: TensorBoard looks for it."""
    write_beside(folder / CONFIG, lambda path: _write_text(path, "".join(map(_listed, embeddings))))


def metadata_text(told: pd.DataFrame) -> str:
    """Return a line for each vector; columns that tell nothing are left out.

    The projector takes the first line for names if it has a tab, so a single column goes without its name.
    """
    columns = [column for column in SHOWN if told[column].notna().any()]
    lines = ["\t".join(columns)] if len(columns) > 1 else []
    cells = [[_cell(value) for value in told[column]] for column in columns]
    lines += ["\t".join(row) for row in zip(*cells, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: object) -> str:
    """Return a cell that is never blank: the projector passes over lines of blanks."""
    if isinstance(value, str):
        return one_line(value)
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return "-"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _write_vectors(path: Path, vectors: NDArray[np.float32]) -> None:
    import pyarrow as pa
    from pyarrow import csv

    columns = [pa.array(np.ascontiguousarray(vectors[:, i])) for i in range(vectors.shape[1])]
    table = pa.table(columns, names=[str(i) for i in range(vectors.shape[1])])
    csv.write_csv(table, path, csv.WriteOptions(include_header=False, delimiter="\t"))


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _listed(embedding: Embedding) -> str:
    metadata = f"  metadata_path: {_quoted(embedding.metadata)}\n" if embedding.metadata else ""
    rows, dim = embedding.shape
    return (
        "embeddings {\n"
        f"  tensor_name: {_quoted(embedding.name)}\n"
        f"{metadata}"
        f"  tensor_shape: {rows}\n"
        f"  tensor_shape: {dim}\n"
        f"  tensor_path: {_quoted(embedding.tensors)}\n"
        "}\n"
    )


def _quoted(text: str) -> str:
    """Return a string as protocol buffers write it in text: bytes out of the ordinary in octal."""
    kept = set(range(32, 127)) - set(b'"\\')
    spelled = text.encode("utf-8", "backslashreplace")
    return '"' + "".join(chr(byte) if byte in kept else f"\\{byte:03o}" for byte in spelled) + '"'
