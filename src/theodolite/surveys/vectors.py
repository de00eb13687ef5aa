"""Measuring vectors that one already has: a survey without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.sources.vectors.files import Vectors, read_vectors, real
from theodolite.sources.vectors.source import VectorSource
from theodolite.surveys.folder import check_free
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import MASSIVE, POSITIONS
from theodolite.surveys.plan import Documents, Plan
from theodolite.surveys.run import run
from theodolite.surveys.storage import placed
from theodolite.surveys.survey import Survey

BLOCK, BLOCKS = 4096, 16  # rows a batch, batches a shard
POPULATIONS = ("all", "without-massive")


def measure(
    vectors: str | Path | NDArray[Any],
    *,
    groups: str | Sequence[Any] | None = None,
    column: str | None = None,
    out: str | Path | None = None,
    sample_size: int = 4096,
    memory: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Survey:
    """Measure vectors from a file or an array (vectors, dim), with the formulas of a survey.

    In a file `groups` names the column or array of labels; beside an .npy it is the path of a .npy or .txt of
    them; with an array it is the labels themselves.
    """
    folder = placed(out) if out is not None else None
    if folder is not None and not resume:
        check_free(folder, overwrite=overwrite)
    name, digest, data = _opened(vectors, column, groups)
    source = VectorSource(data, corpus_key=int(digest[:16], 16))
    step = BLOCK * BLOCKS
    shards = range((data.count + step - 1) // step)

    def read(wanted: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for index in wanted:
            stop = min((index + 1) * step, data.count)
            starts = range(index * step, stop, BLOCK)
            yield index, [(start, np.arange(start, min(start + BLOCK, stop))) for start in starts]

    chosen = np.sort(np.argsort(mix(source.corpus_key, np.arange(data.count)))[:POSITIONS])
    plan = Plan(
        source=source,
        corpus_sha256=digest,
        shards=list(shards),
        read=read,
        weight=lambda index: 1 / len(shards),
        pilot_documents=[(0, chosen)],
        model_sha256="",
        identity={
            "model": {},
            "corpus": {"sha256": digest, "column": column, **_told(data)},
            "settings": {
                "units": source.units.kind,
                "layers": [layer.name for layer in source.layers],
                "populations": list(POPULATIONS),
                "sample_size": sample_size,
                "massive": MASSIVE,
            },
        },
        facts={
            "model": None,
            "tokenizer": None,
            "corpus": {
                "name": name,
                "sha256": digest,
                "documents": data.count,
                "characters": 0,
                "read": data.count,
            },
        },
        populations=POPULATIONS,
        sample_size=sample_size,
        types_bound=len(source.units),
        budget=memory,
    )
    return run(plan, out=folder, resume=resume, overwrite=overwrite, listener=listener)


def _told(data: Vectors) -> dict[str, Any]:
    """Return what the bytes of vectors do not tell: their type and shape, and which labels they go by."""
    labels = None if data.labels is None else "\n".join(map(str, data.labels))
    return {
        "matrices": [f"{matrix.dtype} {matrix.shape}" for matrix in data.matrices.values()],
        "labels": None if labels is None else sha256(labels.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _opened(
    vectors: str | Path | NDArray[Any], column: str | None, groups: str | Sequence[Any] | None
) -> tuple[str, str, Vectors]:
    """Return a name, a digest and the data."""
    if isinstance(vectors, str | Path):
        if not (groups is None or isinstance(groups, str)):
            raise InputError("groups: with a file, give the name of its column or array of labels.")
        path = Path(vectors)
        data = read_vectors(path, column=column, groups=groups)
        with path.open("rb") as stream:
            return path.name, file_digest(stream, "sha256").hexdigest(), data
    array = np.ascontiguousarray(vectors)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise InputError(f"vectors: wanted a numeric array (vectors, dim), got {array.dtype} {array.shape}.")
    labels = None if groups is None else np.array(list(groups), dtype=object)
    if labels is not None and len(labels) != len(array):
        raise InputError(f"groups has {len(labels):,} labels for {len(array):,} vectors.")
    data = Vectors({"vectors": real(array)}, labels)
    return f"array of {array.shape}", sha256(array.tobytes()).hexdigest(), data
