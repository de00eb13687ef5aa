"""theodolite.measure: vectors that already exist, measured with the formulas of a survey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.corpora.fields import FieldChoice, FieldCounter, to_value
from theodolite.corpora.options import TOP
from theodolite.engines.engine import Documents, Plan
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.sources.vectors import Vectors, VectorSource, read_vectors, to_float
from theodolite.state.pilot import POSITIONS
from theodolite.storage.location import parse_location
from theodolite.storage.lock import check_unlocked
from theodolite.surveys.by_field import check_field, check_number_of_groups, describe_by, limit_memory
from theodolite.surveys.folder import check_free
from theodolite.surveys.options import SurveyOptions, check_options
from theodolite.surveys.provenance import describe_corpus, describe_settings, make_provenance
from theodolite.surveys.run import run
from theodolite.surveys.survey import Survey
from theodolite.text import pluralize

BLOCK, BLOCKS = 4096, 16  # rows per batch, batches per shard
POPULATIONS = ("all", "without-massive")
"""Several matrices also have without-sinks: without the rows that are massive in any of them."""


def measure(
    vectors: str | Path | NDArray[Any] | Tensor,
    *,
    groups: str | Sequence[Any] | None = None,
    by: str | Sequence[Any] | None = None,
    by_top: int = TOP,
    column: str | None = None,
    out: str | Path | None = None,
    sample_size: int = 4096,
    memory: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    label: str | None = None,
    listener: Listener | None = None,
) -> Survey:
    """Measure vectors from a file or an array or tensor (vectors, dim), with the formulas of a survey.

    `groups` are the labels that define the units. For a file it is the name of the column or array of labels; for
    an .npy file the path of an .npy or .txt file with them; for an array the labels themselves. Vectors without a
    label (None or NaN) are left out, and their number is reported.

    `by`, given in the same way, groups the vectors: every value has its own rows in the tables `groups` and
    `group_differences`. The `by_top` most frequent values are groups, the others are the group "(other)".
    """
    options = SurveyOptions(sample_size=sample_size, memory=memory, by_top=by_top)
    check_options(options)
    if isinstance(by, str):
        check_field(by)
    check_number_of_groups(by, by_top)
    listener = listener or Listener()
    folder = parse_location(out) if out is not None else None
    if folder is not None:
        check_unlocked(folder)
    if folder is not None and not resume:
        check_free(folder, overwrite=overwrite)
    name, digest, data = _open_vectors(vectors, column, groups, by)
    missing = data.count - len(data.rows)
    if missing == data.count:
        raise InputError(f"groups: all {data.count:,} labels are missing; omit groups to measure without labels.")
    if missing:
        listener.warn(
            f"{missing:,} of {pluralize(data.count, 'vector')} have no label and were left out; omit --groups to "
            "measure all"
        )
    field = by if isinstance(by, str) else "by"
    choice, codes = (None, None) if data.by is None else _choose_groups(data, field, by_top)
    for note in () if choice is None else choice.describe("vector"):
        listener.warn(note)
    source = VectorSource(data, corpus_key=int(digest[:16], 16), by=codes)
    populations = (*POPULATIONS, "without-sinks") if len(source.layers) > 1 else POPULATIONS
    choice = None if choice is None else limit_memory(choice, source.layers, populations)
    by_settings, by_identity = describe_by(choice, by_top)
    step, rows = BLOCK * BLOCKS, data.rows
    shards = range((len(rows) + step - 1) // step)

    def read(indices: Sequence[int]) -> Iterator[tuple[int, Documents]]:
        for index in indices:
            stop = min((index + 1) * step, len(rows))
            starts = range(index * step, stop, BLOCK)
            yield index, [(start, rows[start : min(start + BLOCK, stop)]) for start in starts]

    chosen = rows[np.sort(np.argsort(mix(source.corpus_key, rows))[:POSITIONS])]
    provenance = make_provenance(
        corpus_identity={"column": column, **_describe_data(data), **by_identity},
        settings=describe_settings(
            source.units.kind, [layer.name for layer in source.layers], populations, sample_size, **by_settings
        ),
        corpus=describe_corpus(name, digest, len(rows), read=data.count),
    )
    if label is not None:
        provenance.facts["label"] = label
    plan = Plan(
        source=source,
        corpus_sha256=digest,
        shards=list(shards),
        read=read,
        weight=lambda index: 1 / len(shards),
        pilot_documents=[(0, chosen)],
        weights_sha256=lambda: "",
        identity=provenance.identity,
        facts=provenance.facts,
        populations=populations,
        sample_size=sample_size,
        types_bound=len(source.units),
        budget=options.memory_bytes,
        by=choice,
    )
    return run(plan, out=folder, resume=resume, overwrite=overwrite, listener=listener)


def _choose_groups(data: Vectors, field: str, top: int) -> tuple[FieldChoice, NDArray[np.int64]]:
    """Return the groups by the values of a field, and the number of the group of each vector. (vectors,)"""
    assert data.by is not None
    values = [to_value(value, field) for value in data.by[data.rows].tolist()]
    counter = FieldCounter(field, top)
    counter.add(values)
    if not counter.has_values:
        raise InputError(f"--by: all {len(values):,} values are missing; omit --by to measure without groups.")
    choice = counter.choose()
    codes = np.zeros(data.count, dtype=np.int64)
    codes[data.rows] = choice.codes(values)
    return choice, codes


def _describe_data(data: Vectors) -> dict[str, Any]:
    """Return what the bytes do not determine: type and shape of the vectors, and their labels."""
    labels = None if data.labels is None else "\n".join(map(str, data.labels))
    return {
        "matrices": [f"{matrix.dtype} {matrix.shape}" for matrix in data.matrices.values()],
        "labels": None if labels is None else sha256(labels.encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _open_vectors(
    vectors: str | Path | NDArray[Any] | Tensor,
    column: str | None,
    groups: str | Sequence[Any] | None,
    by: str | Sequence[Any] | None,
) -> tuple[str, str, Vectors]:
    """Return a name, a digest and the data."""
    if isinstance(vectors, str | Path):
        for option, name in (("groups", groups), ("by", by)):
            if not (name is None or isinstance(name, str)):
                raise InputError(f"{option}: expected the name of a column or array of labels in the file.")
        path = Path(vectors)
        data = read_vectors(path, column=column, groups=_text(groups), by=_text(by))
        with path.open("rb") as stream:
            return str(path), file_digest(stream, "sha256").hexdigest(), data
    if isinstance(vectors, Tensor):  # on any device, with or without gradients
        plain = vectors.detach().cpu()
        vectors = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    array = np.ascontiguousarray(vectors)
    if array.ndim == 2 and 0 in array.shape:
        raise InputError(f"vectors: the array is empty; its shape is {array.shape}.")
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(f"vectors: expected a numeric array (vectors, dim), got {array.dtype} {array.shape}.")
    labels, values = (
        None if given is None else _list_labels(given, option, len(array))
        for option, given in (("groups", groups), ("by", by))
    )
    data = Vectors({"vectors": to_float(array)}, labels, values)
    return f"array of {array.shape}", sha256(array.tobytes()).hexdigest(), data


def _text(name: str | Sequence[Any] | None) -> str | None:
    return name if isinstance(name, str) else None


def _list_labels(groups: Any, option: str, count: int) -> NDArray[Any]:
    """Return labels as an array of objects; elements of a tensor become numbers."""
    shape = tuple(getattr(groups, "shape", (None,)))
    if isinstance(groups, str) or not isinstance(groups, Iterable) or len(shape) != 1:
        given = type(groups).__name__ if len(shape) == 1 else f"the shape {shape}"
        raise InputError(f"{option}: expected one label per vector (vectors,), got {given}.")
    labels = groups.tolist() if isinstance(groups, Tensor) else list(groups)
    if len(labels) != count:
        raise InputError(f"{option} has {len(labels):,} labels for {count:,} vectors. Give one label per vector.")
    made = np.empty(len(labels), dtype=object)
    made[:] = labels
    return made
