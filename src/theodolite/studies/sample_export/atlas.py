"""The sample for embedding-atlas: one Parquet with text, vector and a place on the plane."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.studies.clouds.projections import METHODS, project
from theodolite.surveys.files import write_beside

ENDING = ".parquet"


def check_out(out: Path) -> None:
    """Refuse a name that embedding-atlas would not take for Parquet."""
    if out.suffix.lower() != ENDING or out.is_dir():
        raise InputError(
            f"--out {out}: embedding-atlas wants a file that ends in {ENDING}, such as sample.parquet."
        )


def check_method(method: str) -> str:
    """Refuse an unknown projection, and one whose library is not installed."""
    from importlib.util import find_spec

    if method not in METHODS:
        known = list(METHODS)
        raise InputError(f"--project {method!r} is not one of {', '.join(known)}.{nearest(method, known)}")
    if method != "pca" and find_spec({"tsne": "sklearn", "umap": "umap"}[method]) is None:
        raise TheodoliteError(
            f"--project {method} needs a library that is not installed: pip install 'theodolite[laboratories]', "
            "or --project pca."
        )
    return method


def placed(vectors: NDArray[np.float32], method: str) -> NDArray[np.float64]:
    """Return x and y of every vector by t-SNE or UMAP. (n, dim) -> (n, 2)"""
    if len(vectors) < 4:
        raise InputError(f"--project {method} wants 4 vectors or more; {len(vectors)} came. Take --project pca.")
    return project(vectors.astype(np.float64), method)[0]


def write_atlas(out: Path, told: pd.DataFrame, vectors: list[NDArray[np.float32]]) -> None:
    """Write the table with the vectors as lists of float32."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = told.copy()
    for column in ("text", "unit", "layer_name"):
        table[column] = table[column].map(_encodable, na_action="ignore")
    strings = {name: pa.string() for name in ("text", "unit", "layer_name")}
    arrays = {
        name: pa.array(table[name], type=strings[name], from_pandas=True)
        if name in strings
        else pa.array(table[name])
        for name in table.columns
    }
    arrays["vector"] = pa.concat_arrays([_lists(part) for part in vectors])
    write_beside(out, lambda path: pq.write_table(pa.table(arrays), path, compression="zstd"))


def _lists(vectors: NDArray[np.float32]) -> object:
    import pyarrow as pa

    count, dim = vectors.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * dim)
    return pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1)))


def _encodable(text: object) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def command(out: Path, *, text: bool) -> str:
    """Return the command that shows the file.

    `--vector` is not in it: embedding-atlas would use it only to make a projection of its own.

    >>> command(Path("my sample.parquet"), text=True)
    "embedding-atlas 'my sample.parquet' --text text --x x --y y"
    """
    return shlex.join(["embedding-atlas", str(out), *(["--text", "text"] if text else []), "--x", "x", "--y", "y"])
