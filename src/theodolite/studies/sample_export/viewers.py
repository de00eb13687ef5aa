"""Writing files for two viewers: one Parquet file for embedding-atlas, a folder for the TensorBoard projector."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.storage.atomic import write_atomically
from theodolite.storage.location import list_output_folder
from theodolite.studies.embeddings_2d import METHODS, project_2d
from theodolite.studies.survey_data import escape_unencodable

HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
"""Unicode categories of characters that break a line, change its direction, are invisible or unassigned."""
NUMBER = re.compile(
    r"[+-]?(Infinity|NaN|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+"
)
EMOJI_JOINERS = {"\u200d", "\ufe0f"}  # hidden characters that are part of an emoji
ATLAS_SUFFIX = ".parquet"
CONFIG = "projector_config.pbtxt"
EXPORTED_FILES = re.compile(r"layer-\d+\.(tensors|metadata)\.tsv|projector_config\.pbtxt")
PROJECTOR_LIMIT = 10_000
"""Number of points that t-SNE and UMAP of the projector can handle in a browser."""
METADATA_COLUMNS = "text unit special n document window position norm".split()


class Embedding(NamedTuple):
    """One layer in the configuration of the projector."""

    name: str
    tensors: str
    metadata: str | None
    shape: tuple[int, int]


def prepare_folder(folder: Path) -> None:
    """Create the folder; delete the files of an earlier export, and reject a folder with other files."""
    present = list_output_folder(folder)
    foreign = [name for name in present if not EXPORTED_FILES.fullmatch(name)]
    if foreign:
        raise InputError(
            f"--out {folder} contains files that are not of an export ({', '.join(foreign[:4])}); "
            "give another folder."
        )
    for name in present:
        (folder / name).unlink()
    folder.mkdir(parents=True, exist_ok=True)


def write_layer(
    folder: Path, layer: int, name: str, metadata_table: pd.DataFrame, vectors: NDArray[np.float32]
) -> Embedding:
    """Write the vectors of one layer at full float32 precision, and one line of metadata per vector."""
    if vectors.shape[1] < 2:
        raise InputError(f"--to projector: layer {layer} has 1 coordinate; the projector requires 2 or more.")
    tensors, metadata = f"layer-{layer:02d}.tensors.tsv", f"layer-{layer:02d}.metadata.tsv"
    write_atomically(folder / tensors, lambda path: _write_vectors(path, vectors))
    text = format_metadata(metadata_table)
    if text:
        write_atomically(folder / metadata, lambda path: _write_text(path, text))
    return Embedding(f"{layer:02d} {name}", tensors, metadata if text else None, (len(vectors), vectors.shape[1]))


def write_config(folder: Path, embeddings: list[Embedding]) -> None:
    """Write the list of layers. Call it last, since TensorBoard looks for this file."""
    write_atomically(folder / CONFIG, lambda path: _write_text(path, "".join(map(_config_entry, embeddings))))


def format_metadata(metadata_table: pd.DataFrame) -> str:
    """Return one line per vector; columns without values are omitted.

    The projector reads the first line as column names if it contains a tab, so a single column has no name.
    """
    columns = [column for column in METADATA_COLUMNS if metadata_table[column].notna().any()]
    lines = ["\t".join(columns)] if len(columns) > 1 else []
    cells = [[_format_cell(value) for value in metadata_table[column]] for column in columns]
    lines += ["\t".join(row) for row in zip(*cells, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def _format_cell(value: object) -> str:
    """Format a cell so that it is never blank, since the projector skips blank lines."""
    if isinstance(value, str):
        return escape_cell(value)
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


def _config_entry(embedding: Embedding) -> str:
    metadata = f"  metadata_path: {_quote(embedding.metadata)}\n" if embedding.metadata else ""
    rows, dim = embedding.shape
    return (
        "embeddings {\n"
        f"  tensor_name: {_quote(embedding.name)}\n"
        f"{metadata}"
        f"  tensor_shape: {rows}\n"
        f"  tensor_shape: {dim}\n"
        f"  tensor_path: {_quote(embedding.tensors)}\n"
        "}\n"
    )


def _quote(text: str) -> str:
    """Quote a string for the protocol buffer text format: bytes that are not printable ASCII in octal."""
    printable = set(range(32, 127)) - set(b'"\\')
    encoded = text.encode("utf-8", "backslashreplace")
    return '"' + "".join(chr(byte) if byte in printable else f"\\{byte:03o}" for byte in encoded) + '"'


def escape_cell(text: str) -> str:
    r"""Return the text, quoted as in JSON if it would break a row or be read as a number or an empty cell.

    The projector reads an empty cell as missing, spaces as 0 and "007" as 7, and splits at tabs and newlines.
    Invisible characters and those that change the line direction are escaped. Different texts stay different.

    >>> print(*map(escape_cell, ["the", "a\tb", "\u202e", "", "007", " "]))
    the "a\tb" "\u202e" "" "007" " "
    """
    plain = text.strip() and not text.startswith('"') and not NUMBER.fullmatch(text.strip())
    if plain and not any(map(_is_hidden, text)):
        return text
    return '"' + "".join(_escape_character(character) for character in text) + '"'


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in HIDDEN_CATEGORIES and character not in EMOJI_JOINERS


def _escape_character(character: str) -> str:
    if character in '"\\' or _is_hidden(character):
        return json.dumps(character)[1:-1]
    return character


def check_atlas_path(out: Path) -> None:
    """Reject a name that embedding-atlas does not recognise as a Parquet file."""
    if out.suffix.lower() != ATLAS_SUFFIX or out.is_dir():
        raise InputError(
            f"--out {out}: embedding-atlas requires a file that ends in {ATLAS_SUFFIX}, such as sample.parquet."
        )


def check_method(method: str) -> str:
    """Reject an unknown projection, and one whose library is not installed."""
    from importlib.util import find_spec

    if method not in METHODS:
        known = list(METHODS)
        raise InputError(f"--project {method!r} is not one of {', '.join(known)}.{nearest(method, known)}")
    if method != "pca" and find_spec({"tsne": "sklearn", "umap": "umap"}[method]) is None:
        raise TheodoliteError(
            f"--project {method} requires a library that is not installed; run "
            "`pip install 'theodolite[laboratories]'`, or use --project pca."
        )
    return method


def project_vectors(vectors: NDArray[np.float32], method: str) -> NDArray[np.float64]:
    """Project vectors to two dimensions by t-SNE or UMAP. (n, dim) -> (n, 2)"""
    if len(vectors) < 4:
        raise InputError(
            f"--project {method} requires at least 4 vectors (got {len(vectors)}); use --project pca."
        )
    return project_2d(vectors.astype(np.float64), method)[0]


def write_atlas(out: Path, metadata_table: pd.DataFrame, vectors: list[NDArray[np.float32]]) -> None:
    """Write the table with the vectors as lists of float32."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = metadata_table.copy()
    for column in ("text", "unit", "layer_name"):
        table[column] = table[column].map(escape_unencodable, na_action="ignore")
    strings = {name: pa.string() for name in ("text", "unit", "layer_name")}
    arrays = {
        name: pa.array(table[name], type=strings[name], from_pandas=True)
        if name in strings
        else pa.array(table[name])
        for name in table.columns
    }
    arrays["vector"] = pa.concat_arrays([_to_list_array(part) for part in vectors])
    write_atomically(out, lambda path: pq.write_table(pa.table(arrays), path, compression="zstd"))


def _to_list_array(vectors: NDArray[np.float32]) -> object:
    import pyarrow as pa

    count, dim = vectors.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * dim)
    return pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1)))


def atlas_command(out: Path, *, text: bool) -> str:
    """Return the command that shows the file in embedding-atlas.

    It does not contain `--vector`, which makes embedding-atlas compute its own projection.

    >>> atlas_command(Path("my sample.parquet"), text=True)
    "embedding-atlas 'my sample.parquet' --text text --x x --y y"
    """
    return shlex.join(["embedding-atlas", str(out), *(["--text", "text"] if text else []), "--x", "x", "--y", "y"])
