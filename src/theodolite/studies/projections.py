"""Two-dimensional PCA of a survey's sample at every layer, each aligned with the layer before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.engines.threads import run_in_threads
from theodolite.errors import InputError
from theodolite.measures.projection import Plane, find_rotation, principal_plane
from theodolite.studies.embeddings_2d import FEWEST, embed_umap
from theodolite.studies.sample_file import SampledRows, SampleFile

COLUMNS = "layer population row unit x y norm share key".split()
BLOCK = 1024
EXCLUDING = ("without-massive", "without-sinks")
"""Populations that are added to `all` if there are massive positions, which would hide all others."""


class ProjectionOptions(NamedTuple):
    """How many vectors of each layer, and how many nearest vectors of each."""

    per_layer: int
    nearest: int


@dataclass(frozen=True)
class ProjectedLayer:
    """The projected sample of one layer."""

    layer: int
    stack: tuple[str, bool]  # layers of one stack have the same positions
    key: NDArray[np.int64]
    unit: NDArray[np.int64]
    norm: NDArray[np.float64]
    plane: Plane
    massive: bool
    near: NDArray[np.int64] | None = None  # (rows, nearest) keys of the nearest vectors
    umap: NDArray[np.float64] | None = None  # (rows, 2)


def projections(
    survey_folder: str | Path,
    *,
    per_layer: int = 1500,
    population: str = "all",
    nearest: int = 0,
    umap: int = 0,
    layers: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Return the sample projected on the first two principal components of each layer.

    One row per layer, population and vector: `x`, `y`; `norm`; `unit` (null if vectors have none); `row`, a number
    that identifies one position of the corpus at every layer of a stack; `share`, the share of the variance that
    the plane of the layer shows (null if all vectors are equal); `key`, the hash of the position.

    With `nearest`, `near1`, `near2` and so on are the `row` of the vectors with the largest cosine among those of
    the layer. With `umap`, `umap_x` and `umap_y` are the coordinates by UMAP at this number of layers, evenly
    spaced to the last, of the last population that is projected; null at other layers.

    Each plane is exact. Within the plane the points are rotated, and mirrored if necessary, to match the same
    positions at the layer before as closely as possible, so that points do not jump. The x axis is therefore not
    the first principal component. If the sample of `all` has massive positions, rows of the populations
    `without-massive` and `without-sinks` follow, as far as the survey has them.

    `layers` are those to project, by default all.

    A survey without a sample gives no rows, and `attrs["undefined"]` gives the reason. Cost for 13 layers of 1,500
    vectors of 768 dimensions: about a second on one core; memory: the vectors of one layer per thread of
    PyTorch.
    """
    options = ProjectionOptions(per_layer, nearest)
    if per_layer < 2:
        raise InputError(f"per_layer must be at least 2 vectors per layer (got {per_layer}).")
    sample = SampleFile(survey_folder)
    if layers is not None:
        sample.layers = {index: sample.layers[index] for index in layers}
    sample.check_population(population)
    known: dict[int, ProjectedLayer] = {}
    projected = {population: list(_project_layers(sample, population, options, known))}
    others = EXCLUDING if population == "all" and any(layer.massive for layer in projected["all"]) else ()
    for other in others:
        if sample.has_population(other):
            projected[other] = list(_project_layers(sample, other, options, known))
    if umap:
        last = list(projected)[-1]
        projected[last] = _add_umap(sample, last, projected[last], per_layer, umap)
    table = _table(sample, projected)
    if table.empty:
        table.attrs["undefined"] = (
            f"{sample.folder}: the survey has no sample of vectors (--sample-size {sample.size})"
        )
    return table


def _project_layers(
    sample: SampleFile, population: str, options: ProjectionOptions, known: dict[int, ProjectedLayer]
) -> Iterator[ProjectedLayer]:
    """Project the layers in order; `known` holds layers that were already projected, to reuse equal planes."""

    def project(index: int) -> ProjectedLayer:
        layer, rows = sample.layers[index], sample.rows(index, population, options.per_layer)
        near = _find_nearest(rows, options.nearest) if options.nearest else None
        plane = known[index].plane if _same_rows(known.get(index), rows) else principal_plane(rows.vector)
        norm = np.linalg.norm(rows.vector.astype(np.float64), axis=1)
        stack = (layer.stack, layer.units)
        return ProjectedLayer(index, stack, rows.key, rows.unit, norm, plane, bool(rows.massive.any()), near)

    before: ProjectedLayer | None = None
    workers = min(torch.get_num_threads(), len(sample.layers))
    with run_in_threads(project, list(sample.layers), workers) as waits:
        for wait in waits:
            current = wait()
            known.setdefault(current.layer, current)
            current = current if before is None or before.stack != current.stack else align(current, before)
            if len(current.key):
                before = current
            yield current


def _find_nearest(rows: SampledRows, nearest: int) -> NDArray[np.int64]:
    """Return the keys of the vectors with the largest cosine with each vector. (rows, nearest)"""
    count = max(min(nearest, len(rows) - 1), 0)
    norms = np.linalg.norm(rows.vector, axis=1, keepdims=True)
    directions = rows.vector / np.where(norms > 0, norms, 1)
    found = np.empty((len(rows), count), dtype=np.int64)
    for start in range(0, len(rows) if count else 0, BLOCK):
        cosines = directions[start : start + BLOCK] @ directions.T
        at = np.arange(len(cosines))
        cosines[at, start + at] = -np.inf
        near = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(cosines, near, axis=1), axis=1, kind="stable")
        found[start : start + BLOCK] = rows.key[np.take_along_axis(near, order, axis=1)]
    return found


def _add_umap(
    sample: SampleFile, population: str, layers: list[ProjectedLayer], limit: int, count: int
) -> list[ProjectedLayer]:
    """Return the layers with UMAP at some of them, evenly spaced to the last."""
    places = np.unique(np.linspace(0, len(layers) - 1, count + 1).round().astype(int)[1:]).tolist()
    made = list(layers)
    for place in places if layers else []:
        rows = sample.rows(layers[place].layer, population, limit)
        if len(rows) >= FEWEST:
            vectors = rows.vector.astype(np.float64)
            made[place] = replace(layers[place], umap=embed_umap(vectors - vectors.mean(axis=0)))
    return made


def _same_rows(known: ProjectedLayer | None, rows: SampledRows) -> bool:
    return known is not None and np.array_equal(known.key, rows.key)


def align(layer: ProjectedLayer, before: ProjectedLayer) -> ProjectedLayer:
    """Rotate the points of a layer to match those of the layer before at the positions that both have."""
    _, own, others = np.intersect1d(layer.key, before.key, return_indices=True)
    if not len(own):
        return layer
    points, share = layer.plane
    plane = Plane(points @ find_rotation(points[own], before.plane.points[others]), share)
    return replace(layer, plane=plane)


def _table(sample: SampleFile, projected: dict[str, list[ProjectedLayer]]) -> pd.DataFrame:
    numbers = _numbers([layer for layers in projected.values() for layer in layers])
    parts = []
    for population, layers in projected.items():
        for layer in layers:
            columns = {
                "layer": layer.layer,
                "population": population,
                "row": numbers[layer.stack].reindex(layer.key).to_numpy(),
                "unit": sample.unit_names(layer.layer, layer.unit),
                "x": layer.plane.points[:, 0],
                "y": layer.plane.points[:, 1],
                "norm": layer.norm,
                "share": layer.plane.share,
            }
            table = pd.DataFrame(columns | {"key": layer.key}, columns=COLUMNS)
            if layer.near is not None:
                rows = numbers[layer.stack]
                names = [f"near{rank}" for rank in range(1, layer.near.shape[1] + 1)]
                found = [rows.reindex(keys).to_numpy() for keys in layer.near.T]
                table = table.assign(**dict(zip(names, found, strict=True)))
            if layer.umap is not None:
                table = table.assign(umap_x=layer.umap[:, 0], umap_y=layer.umap[:, 1])
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _numbers(projected: list[ProjectedLayer]) -> dict[tuple[str, bool], pd.Series[int]]:
    """Number the positions of each stack, in the order of their keys and on from the stack before."""
    numbers: dict[tuple[str, bool], pd.Series[int]] = {}
    start = 0
    for stack in dict.fromkeys(layer.stack for layer in projected):
        keys = np.unique(np.concatenate([layer.key for layer in projected if layer.stack == stack]))
        numbers[stack] = pd.Series(np.arange(start, start + len(keys)), index=keys)
        start += len(keys)
    return numbers
