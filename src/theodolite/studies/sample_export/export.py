"""Exporting the sample of a finished survey."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError, nearest
from theodolite.studies.planes import principal_plane, turn
from theodolite.studies.sample_export import atlas, projector
from theodolite.studies.sample_export.table import TABLES, told_of
from theodolite.studies.sample_export.where import Whereabouts
from theodolite.studies.sampled import SampledRows, SampleFile
from theodolite.surveys.storage import on_disk

VIEWERS = ("embedding-atlas", "projector")


@dataclass(frozen=True)
class Exported:
    """What was written, and the command that shows it."""

    out: Path
    layers: dict[int, int]  # vectors written, by layer
    command: str


class Placed(NamedTuple):
    """The points of one layer, by key."""

    key: NDArray[np.int64]
    points: NDArray[np.float64]


def export(
    folder: str | Path,
    *,
    to: str,
    out: str | Path,
    layer: str | int | None = None,
    population: str = "all",
    limit: int | None = None,
    project: str | None = None,
) -> Exported:
    """Write the vectors that a survey kept whole for another viewer: embedding-atlas, or TensorBoard's projector.

    `layer` names one layer or several, as 6, "0,6,12", "0-3" or "-1"; by default embedding-atlas gets the last
    and the projector all, each as an embedding of its own. `project` (pca, umap or tsne) makes x and y for
    embedding-atlas; the projector makes its own. `limit` takes the first vectors in the order of their hash,
    which is again a uniform sample, 10,000 for the projector by default.
    """
    if to not in VIEWERS:
        raise InputError(f"--to {to!r} is not one of {', '.join(VIEWERS)}.{nearest(to, list(VIEWERS))}")
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: wanted 1 or more.")
    path = on_disk(out, "export")
    if to == "projector":
        if project is not None:
            raise InputError("--project is for embedding-atlas; the projector makes its own, PCA, t-SNE and UMAP.")
        return _to_projector(folder, path, layer, population, limit or projector.LIMIT)
    atlas.check_out(path)
    return _to_atlas(folder, path, layer, population, limit, atlas.check_method(project or "pca"))


def _to_projector(folder: str | Path, out: Path, layer: str | int | None, population: str, limit: int) -> Exported:
    sample = SampleFile(folder, TABLES)
    layers = _checked(sample, layer, population)
    projector.claim(out)
    where, written, counts = Whereabouts(sample.survey.facts), [], {}
    for index in layers:
        rows = sample.rows(index, population, limit)
        if not len(rows):
            continue
        told = told_of(sample, index, population, rows, where)
        written.append(projector.write_layer(out, index, sample.layers[index].name, told, rows.vector))
        counts[index] = len(rows)
    projector.write_config(out, written)
    return Exported(out, counts, shlex.join(["tensorboard", "--logdir", str(out)]))


def _to_atlas(
    folder: str | Path, out: Path, layer: str | int | None, population: str, limit: int | None, method: str
) -> Exported:
    sample = SampleFile(folder, TABLES)
    where = Whereabouts(sample.survey.facts)
    tables, vectors, counts = [], [], {}
    before: Placed | None = None
    for index in _checked(sample, -1 if layer is None else layer, population):
        rows = sample.rows(index, population, limit)
        if not len(rows):
            continue
        points = _points(rows, method, before)
        before = Placed(rows.key, points)
        tables.append(told_of(sample, index, population, rows, where).assign(x=points[:, 0], y=points[:, 1]))
        vectors.append(rows.vector)
        counts[index] = len(rows)
    table = pd.concat(tables, ignore_index=True)
    atlas.write_atlas(out, table, vectors)
    return Exported(out, counts, atlas.command(out, text=bool(table["text"].notna().any())))


def _checked(sample: SampleFile, layer: str | int | None, population: str) -> list[int]:
    """Return the layers to write, at least one of which has vectors."""
    sample.check(population)
    layers = sample.chosen(layer)
    if not sample.size:
        raise InputError(f"{sample.folder}: no vectors were kept whole (--sample-size 0); survey again with more.")
    if not any(len(sample.rows(index, population, 1)) for index in layers):
        raise InputError(
            f"--population {population!r} has no vectors at layer {', '.join(map(str, layers))} of this survey."
        )
    return layers


def _points(rows: SampledRows, method: str, before: Placed | None) -> NDArray[np.float64]:
    """Return x and y; principal components turned onto the layer before, where there is one."""
    if method != "pca":
        return atlas.placed(rows.vector, method)
    points = principal_plane(rows.vector).points
    if before is None:
        return points
    _, here, there = np.intersect1d(rows.key, before.key, return_indices=True)
    return points @ turn(points[here], before.points[there]) if len(here) else points
