"""Projections of the sample: for every layer the plane of most variance, turned onto the layer before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.planes import Plane, principal_plane, turn
from theodolite.studies.sampled import SampledRows, SampleFile

COLUMNS = "layer population row unit x y norm share".split()
FLATTENED = "without-massive"
"""A few massive positions put all others into one dot: beside `all` these are shown without them."""


@dataclass(frozen=True)
class Drawn:
    """One layer's sample on its plane."""

    layer: int
    stack: tuple[str, bool]  # layers of one stack see the same positions
    key: NDArray[np.int64]
    unit: NDArray[np.int64]
    norm: NDArray[np.float64]
    plane: Plane
    massive: bool


def projections(survey_folder: str | Path, *, per_layer: int = 1500, population: str = "all") -> pd.DataFrame:
    """Return where the sample lies on each layer's plane of most variance.

    One row per layer, population and vector: `x`, `y`; `norm`, its length; `unit` (null where vectors have none);
    `row`, a number that is the same for one position of the corpus at every layer of a stack; `share` of the
    variance that the layer's plane holds (null where all vectors are one).

    Each plane is exact. Within it the axes are turned, and mirrored if need be, to bring the same positions
    nearest to where they were at the layer before, so that points do not jump; x alone is therefore no principal
    component. Where the sample of `all` has massive positions, and the survey tells `without-massive`, rows of
    that population follow.

    A survey without a sample gives no rows, and `attrs["undefined"]` says why. Cost for 13 layers of 1,500
    vectors of 768 coordinates: about a second on one core; memory: one layer's vectors.
    """
    if per_layer < 2:
        raise InputError(f"per_layer: wanted 2 or more vectors a layer; {per_layer} came.")
    sample = SampleFile(survey_folder)
    sample.check(population)
    known: dict[int, Drawn] = {}
    drawn = {population: list(_drawn(sample, population, per_layer, known))}
    if population == "all" and sample.tells(FLATTENED) and any(each.massive for each in drawn["all"]):
        drawn[FLATTENED] = list(_drawn(sample, FLATTENED, per_layer, known))
    table = _table(sample, drawn)
    if table.empty:
        table.attrs["undefined"] = f"{sample.folder}: no vectors were kept whole (--sample-size {sample.size})"
    return table


def _drawn(sample: SampleFile, population: str, limit: int, known: dict[int, Drawn]) -> Iterator[Drawn]:
    """Project one layer after the other; `known` has layers whose plane was found for the same vectors."""
    before: Drawn | None = None
    for index, layer in sample.layers.items():
        rows = sample.rows(index, population, limit)
        plane = known[index].plane if _same(known.get(index), rows) else principal_plane(rows.vector)
        norm = np.linalg.norm(rows.vector.astype(np.float64), axis=1)
        stack = (layer.stack, layer.units)
        made = Drawn(index, stack, rows.key, rows.unit, norm, plane, bool(rows.massive.any()))
        known.setdefault(index, made)
        made = made if before is None or before.stack != stack else turned(made, before)
        if len(rows):
            before = made
        yield made


def _same(known: Drawn | None, rows: SampledRows) -> bool:
    return known is not None and np.array_equal(known.key, rows.key)


def turned(drawn: Drawn, before: Drawn) -> Drawn:
    """Return a layer's points turned onto those of the layer before, as far as they are of the same positions."""
    _, here, there = np.intersect1d(drawn.key, before.key, return_indices=True)
    if not len(here):
        return drawn
    points, share = drawn.plane
    plane = Plane(points @ turn(points[here], before.plane.points[there]), share)
    return replace(drawn, plane=plane)


def _table(sample: SampleFile, drawn: dict[str, list[Drawn]]) -> pd.DataFrame:
    numbers = _numbers([each for layers in drawn.values() for each in layers])
    parts = []
    for population, layers in drawn.items():
        for each in layers:
            columns = {
                "layer": each.layer,
                "population": population,
                "row": numbers[each.stack].reindex(each.key).to_numpy(),
                "unit": sample.unit_names(each.layer, each.unit),
                "x": each.plane.points[:, 0],
                "y": each.plane.points[:, 1],
                "norm": each.norm,
                "share": each.plane.share,
            }
            parts.append(pd.DataFrame(columns, columns=COLUMNS))
    return pd.concat(parts, ignore_index=True)


def _numbers(drawn: list[Drawn]) -> dict[tuple[str, bool], pd.Series[int]]:
    """Number the positions of each stack, in the order of their keys and on from the stack before."""
    numbers: dict[tuple[str, bool], pd.Series[int]] = {}
    start = 0
    for stack in dict.fromkeys(each.stack for each in drawn):
        keys = np.unique(np.concatenate([each.key for each in drawn if each.stack == stack]))
        numbers[stack] = pd.Series(np.arange(start, start + len(keys)), index=keys)
        start += len(keys)
    return numbers
