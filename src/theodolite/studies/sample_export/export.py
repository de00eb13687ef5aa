"""Exporting the sample of a finished survey: the implementation of `theodolite export`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, nearest
from theodolite.hashing import mix, unmix
from theodolite.measures.projection import find_rotation, principal_plane
from theodolite.storage.location import local_path
from theodolite.studies.number_export.trackers import TRACKERS, ExportResult, export_numbers
from theodolite.studies.sample_export import viewers
from theodolite.studies.sample_export.keys import export_keys
from theodolite.studies.sample_file import SampledRows, SampleFile
from theodolite.studies.survey_data import SurveyData
from theodolite.surveys.survey import Survey, folder_of

KEYS = "keys"  # not a viewer: means and scales of keys
VIEWERS = ("embedding-atlas", "projector", KEYS)
COLUMNS = "text unit special n document window position layer layer_name norm".split()
TABLES = ("units", "tokens")
PLACE_COLUMNS = ["document", "window", "position"]
BLOCK_SIZE = 2**20  # hashes inverted at a time, 8 MB
POSITION_LIMITS = (2048, 16384)
"""Positions to try if the survey does not record the length of windows."""
MAX_WINDOWS, MIN_WINDOWS = 256, 16
"""Windows to try per document; the search stops after MIN_WINDOWS if nothing is found at all."""


class LayerPoints(NamedTuple):
    """The projected vectors of one layer with their keys."""

    key: NDArray[np.int64]
    points: NDArray[np.float64]


def export(
    folder: Survey | str | Path,
    *,
    to: str,
    out: str | Path,
    layer: str | int | None = None,
    population: str = "all",
    limit: int | None = None,
    project: str | None = None,
    measures: Sequence[str] = (),
) -> ExportResult:
    """Write a survey for other programs: its sampled vectors, statistics of its keys, or its numbers by layer.

    `to` is "embedding-atlas" or "projector" for vectors. For numbers it is "mlflow", "wandb" (offline),
    "tensorboard" or "prometheus"; `folder` may then also be that of a series, or the JSON file of a check, and
    `measures` selects columns.

    `layer` names one layer or several: 6, "0,6,12", "0-3" or "-1". By default embedding-atlas gets the last layer,
    and the projector gets all layers, each as a separate embedding. `project` (pca, umap or tsne) computes x and y
    for embedding-atlas; the projector computes its own. `limit` is the maximum number of vectors per layer (by
    default 10,000 for the projector); they are again a uniform sample. To "keys", the mean and the scale of the
    keys of every head are written as safetensors, and the errors of 4-bit keys are returned.
    """
    if to not in (*VIEWERS, *TRACKERS):
        known = [*VIEWERS, *TRACKERS]
        raise InputError(f"--to {to!r} is not one of {', '.join(known)}.{nearest(to, known)}")
    if to in TRACKERS:
        for option, given in (("--limit", limit), ("--project", project)):
            if given is not None:
                raise InputError(f"{option} is for vectors; --to {to} writes numbers.")
        source = SurveyData(folder.facts, {"layers": folder.layers}) if isinstance(folder, Survey) else folder
        return export_numbers(source, to=to, out=out, layer=layer, population=population, measures=measures)
    if measures:
        raise InputError(f"--measure is for numbers; --to {to} writes vectors.")
    if limit is not None and limit < 1:
        raise InputError(f"--limit requires a number of 1 or more (got {limit}).")
    folder, path = folder_of(folder), local_path(out, "export")
    if to == KEYS:
        for name, value in (("--layer", layer), ("--limit", limit), ("--project", project)):
            if value is not None:
                raise InputError(f"{name} has no effect on --to keys, which writes all layers of keys. Omit it.")
        errors = export_keys(folder, path, population)
        return ExportResult(path, {}, "", errors)
    if to == "projector":
        if project is not None:
            raise InputError(
                "--project requires --to embedding-atlas; the projector computes PCA, t-SNE and UMAP itself."
            )
        return _to_projector(folder, path, layer, population, limit or viewers.PROJECTOR_LIMIT)
    viewers.check_atlas_path(path)
    return _to_atlas(folder, path, layer, population, limit, viewers.check_method(project or "pca"))


def _to_projector(
    folder: str | Path, out: Path, layer: str | int | None, population: str, limit: int
) -> ExportResult:
    sample = SampleFile(folder, TABLES)
    layers = _select_layers(sample, layer, population)
    viewers.prepare_folder(out)
    decoder, written, counts = PositionDecoder(sample.survey.facts), [], {}
    for index in layers:
        rows = sample.rows(index, population, limit)
        if not len(rows):
            continue
        table = make_vector_table(sample, index, population, rows, decoder)
        written.append(viewers.write_layer(out, index, sample.layers[index].name, table, rows.vector))
        counts[index] = len(rows)
    viewers.write_config(out, written)
    return ExportResult(out, counts, shlex.join(["tensorboard", "--logdir", str(out)]))


def _to_atlas(
    folder: str | Path, out: Path, layer: str | int | None, population: str, limit: int | None, method: str
) -> ExportResult:
    sample = SampleFile(folder, TABLES)
    decoder = PositionDecoder(sample.survey.facts)
    tables, vectors, counts = [], [], {}
    before: LayerPoints | None = None
    for index in _select_layers(sample, -1 if layer is None else layer, population):
        rows = sample.rows(index, population, limit)
        if not len(rows):
            continue
        points = _project(rows, method, before)
        before = LayerPoints(rows.key, points)
        tables.append(
            make_vector_table(sample, index, population, rows, decoder).assign(x=points[:, 0], y=points[:, 1])
        )
        vectors.append(rows.vector)
        counts[index] = len(rows)
    table = pd.concat(tables, ignore_index=True)
    viewers.write_atlas(out, table, vectors)
    return ExportResult(out, counts, viewers.atlas_command(out, text=bool(table["text"].notna().any())))


def _select_layers(sample: SampleFile, layer: str | int | None, population: str) -> list[int]:
    """Return the layers to write; raise InputError if none of them has vectors."""
    sample.check_population(population)
    layers = sample.select_layers(layer)
    if not sample.size:
        raise InputError(
            f"{sample.folder} has no sampled vectors (--sample-size 0); survey again with a larger --sample-size."
        )
    if not any(len(sample.rows(index, population, 1)) for index in layers):
        raise InputError(
            f"--population {population!r} has no sampled vectors at layer {', '.join(map(str, layers))}."
        )
    return layers


def _project(rows: SampledRows, method: str, before: LayerPoints | None) -> NDArray[np.float64]:
    """Return x and y. Principal components are rotated to match the previous layer, if there is one."""
    if method != "pca":
        return viewers.project_vectors(rows.vector, method)
    points = principal_plane(rows.vector).points
    if before is None:
        return points
    _, index, previous = np.intersect1d(rows.key, before.key, return_indices=True)
    return points @ find_rotation(points[index], before.points[previous]) if len(index) else points


def make_vector_table(
    sample: SampleFile, layer: int, population: str, rows: SampledRows, decoder: PositionDecoder
) -> pd.DataFrame:
    """Return one row per sampled vector of a layer.

    `n` is the number of occurrences of the unit in the population. Unit, text, special and n are null if vectors
    have no unit; document, window and position are null if they cannot be decoded.
    """
    unit = sample.unit_names(layer, rows.unit)
    units = sample.survey.units.drop_duplicates("unit").set_index("unit")
    tokens = sample.survey.tokens
    counted = tokens[(tokens["layer"] == layer) & (tokens["population"] == population)].set_index("unit")["n"]
    norm: NDArray[np.float64] = np.linalg.norm(rows.vector.astype(np.float64), axis=1)
    found = pd.DataFrame(
        {
            "text": units["text"].astype(object).reindex(unit).to_numpy(),
            "unit": unit,
            "special": units["special"].astype("boolean").reindex(unit).to_numpy(),
            "n": counted.astype("Int64").reindex(unit).to_numpy(),
            "layer": layer,
            "layer_name": sample.layers[layer].name,
            "norm": norm,
        }
    ).join(decoder(rows.key))
    return found[COLUMNS].astype({"special": "boolean", "n": "Int64", "text": object, "unit": object})


class PositionDecoder:
    """Decodes keys to document, window and position; results are cached by key.

    A key is a hash of the three without its last bit, and every step of the hash can be inverted. Each position
    and window is tried: the right one leads to a document number within the corpus; a wrong one does so with
    probability documents / 2^64. For plain vectors, the document is the row in the file, and position is null.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.plain = facts.get("model") is None
        self.known = pd.DataFrame(columns=PLACE_COLUMNS, dtype="int64")  # by key; -1: not found

    def __call__(self, key: NDArray[np.int64]) -> pd.DataFrame:
        """Return one row per key; null if it cannot be decoded."""
        new = np.setdiff1d(key, self.known.index.to_numpy(dtype=np.int64))
        self.known = pd.concat([self.known, self._decode(new)])
        found = self.known.loc[key].reset_index(drop=True)
        places = found.astype("Int64").mask(found["document"] < 0)
        if self.plain:
            places[["window", "position"]] = pd.NA
        return places

    def _decode(self, key: NDArray[np.int64]) -> pd.DataFrame:
        found = np.full((len(key), len(PLACE_COLUMNS)), -1, dtype=np.int64)
        for corpus in self.facts["corpus"].get("parts") or [self.facts["corpus"]]:
            for positions in _position_ranges(self.facts["settings"], self.plain):
                left = np.flatnonzero(found[:, 0] < 0)
                found[left] = _search(key[left], corpus, positions, windows=1 if self.plain else MAX_WINDOWS)
                if (found[:, 0] < 0).all():
                    break
        return pd.DataFrame(found, index=key, columns=PLACE_COLUMNS)


def _position_ranges(settings: Mapping[str, Any], plain: bool) -> list[range]:
    if plain:
        return [range(1, 2)]  # the position of every vector without a window
    if settings.get("max_tokens"):
        return [range(int(settings["max_tokens"]))]
    return [range(low, high) for low, high in zip((0, *POSITION_LIMITS), POSITION_LIMITS, strict=False)]


def _search(
    key: NDArray[np.int64], corpus: Mapping[str, Any], positions: range, windows: int
) -> NDArray[np.int64]:
    """Return document, window and position, each -1 if not found. (keys, 3)"""
    found = np.full((len(key), len(PLACE_COLUMNS)), -1, dtype=np.int64)
    step = max(1, BLOCK_SIZE // (2 * len(positions)))
    documents = max(int(corpus.get("read") or 0), int(corpus["documents"]))
    seed = mix(int(corpus["sha256"][:16], 16))
    for start in range(0, len(key), step):
        block = np.arange(start, min(start + step, len(key)))
        hashes = (key[block].astype(np.uint64)[:, None] << np.uint64(1)) | np.arange(2, dtype=np.uint64)
        before = unmix(hashes[:, :, None], np.array(positions, dtype=np.uint64)).reshape(len(block), -1)
        for window in range(windows):
            document = unmix(unmix(before, window), seed)
            row, column = np.nonzero(document < documents)
            place = positions.start + column % len(positions)
            found[block[row]] = np.stack(
                [document[row, column].astype(np.int64), np.full(len(row), window), place], 1
            )
            left = np.ones(len(block), dtype=bool)
            left[row] = False
            block, before = block[left], before[left]
            if not len(block) or (window >= MIN_WINDOWS and (found[:, 0] < 0).all()):
                break
    return found
