"""Measure every layer of a finished survey with and without its sinks, from its sample; no model runs.

The sample has all sinks of a survey, and of its other positions those with the smallest hash, which stand for the
rest. The hash identifies the document and the position of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import safe_open

from manual.sinks.populations import (
    DELIMITER,
    FIRST,
    MEASURES,
    SINK,
    Row,
    add_up,
    list_norms,
    list_rows,
    list_shapes,
    measure_populations,
)
from theodolite.batch import GROUPS
from theodolite.hashing import mix, mix_on
from theodolite.measures.spectrum import anisotropy_svd, eigenvalues
from theodolite.sources.rows import GROUP_SALT
from theodolite.statistics.cells import CELLS, MASSIVE_CELLS, SINK_CELLS
from theodolite.storage.file_names import SAMPLE

FINAL = "final norm"
THRESHOLDS, THRESHOLD_LAYERS = (np.inf, 10.0, 5.0, 3.0), (3, 6, 9, 12, 20, 28)
MOST_WINDOWS = 64
"""Windows of a document whose positions are found."""
NEAREST = {name: name for name in ("all", "without-first", "without-sinks")} | {
    "without-delimiters": "all",
    "rest": "without-sinks",
}
"""The population of a survey to which the sample adds a difference, for every population."""
Ints = NDArray[np.int64]
Measured = dict[str, NDArray[np.float64]]  # MEASURES by population


class SinkTables(NamedTuple):
    """By layer and population; by population; by layer and sort of position; sinks by unit; by threshold."""

    populations: pd.DataFrame
    shapes: pd.DataFrame
    norms: pd.DataFrame
    units: pd.DataFrame
    thresholds: pd.DataFrame


class Sampled(NamedTuple):
    """The sampled rows of one layer, with the number of positions that each stands for."""

    vectors: NDArray[np.float32]
    key: Ints
    unit: Ints
    cell: Ints
    weight: NDArray[np.float64]


def is_delimiter(text: str, *, special: bool) -> bool:
    """Return whether a unit is a special token, or has no letter and no digit.

    >>> [is_delimiter(text, special=False) for text in ("cat", "7", ".", "<0x0A>")]
    [False, False, True, False]
    """
    return special or not any(character.isalnum() for character in text.replace("\\n", ""))


def measure_survey(folder: Path) -> SinkTables:
    """Return the tables of one survey of text. Cost: some eigenvalue problems per layer and group of documents."""
    import theodolite

    survey = theodolite.open(folder)
    facts, units = survey.facts, survey.units.set_index("row")
    places = find_places(facts)
    delimiter = {int(row): is_delimiter(unit.text, special=unit.special) for row, unit in units.iterrows()}
    populations: list[Row] = []
    by_sort: list[Row] = []
    curves, massive = [], {}
    for layer in facts["layers"]:
        rows = read_layer(folder, layer["index"], survey.layers)
        where = places.loc[rows.key]
        cell, sinks = rows.cell, find_sinks(rows.cell)
        kind = FIRST * (cell % 2) + SINK * sinks + DELIMITER * np.array([delimiter[unit] for unit in rows.unit])
        sums = add_up(rows.vectors, kind, where["group"].to_numpy(), rows.weight)
        whole, without = measure_populations(sums)
        of_layer: Row = {
            "causal": bool(facts["model"]["causal"]),
            "layer": layer["index"],
            "layer_name": layer["name"],
        }
        exact = survey.layers[survey.layers["layer"] == layer["index"]].set_index("population")
        whole = anchor(whole, exact)
        populations += [of_layer | row for row in list_rows(sums, whole, without)]
        norms = np.linalg.norm(rows.vectors.astype(np.float64), axis=1)
        by_sort += [of_layer | row for row in list_norms(norms, kind, np.isin(cell, MASSIVE_CELLS), rows.weight)]
        massive[layer["index"]] = pd.Series(np.isin(cell, MASSIVE_CELLS)[sinks], index=rows.key[sinks])
        last = rows
        if layer["name"] != FINAL:
            curves.append((whole, without))
        print(f"  {layer['name']}", flush=True)
    shapes = pd.DataFrame(list_shapes(*zip(*curves, strict=True))).assign(causal=bool(facts["model"]["causal"]))
    texts = dict(zip(last.key, units.loc[last.unit, "text"], strict=True))
    sinks_found = list_sinks(pd.DataFrame(massive), places, texts)
    thresholds = measure_thresholds(folder).assign(causal=bool(facts["model"]["causal"]))
    return SinkTables(pd.DataFrame(populations), shapes, pd.DataFrame(by_sort), sinks_found, thresholds)


def measure_thresholds(folder: Path) -> pd.DataFrame:
    """Return the SVD anisotropy of some layers of a survey without norms above several multiples of the median."""
    import theodolite

    survey = theodolite.open(folder)
    found = []
    for layer in (layer for layer in survey.facts["layers"] if layer["index"] in THRESHOLD_LAYERS):
        rows = read_layer(folder, layer["index"], survey.layers)
        norms = np.linalg.norm(rows.vectors.astype(np.float64), axis=1)
        of_all = survey.layers[(survey.layers["layer"] == layer["index"]) & (survey.layers["population"] == "all")]
        for above in THRESHOLDS:
            kept = norms <= above * float(of_all["norm_p50"].iloc[0])
            number = anisotropy_without(rows.vectors[kept], rows.weight[kept])
            left_out = round(float(rows.weight[~kept].sum()))
            found.append({"layer": layer["index"], "above": above, "left_out": left_out, "anisotropy_svd": number})
    return pd.DataFrame(found)


def anisotropy_without(vectors: NDArray[np.floating], weight: NDArray[np.float64]) -> float:
    """Return the SVD anisotropy of weighted vectors. (rows, dim), (rows,)"""
    x = vectors.astype(np.float64)
    y = x - np.average(x, axis=0, weights=weight)
    return anisotropy_svd(eigenvalues((weight[:, None] * y).T @ y))


def anchor(whole: Measured, exact: pd.DataFrame) -> Measured:
    """Return the numbers of the survey for the populations that it has, over all positions.

    To another population, the sample adds its difference from the nearest one. A number of the sample by itself
    would differ for its size: an effective rank of 4,096 vectors is lower than that of 20,000.
    """
    of_survey = {name: exact.loc[name, list(MEASURES)].to_numpy(np.float64) for name in set(NEAREST.values())}
    return {name: of_survey[base] + (whole[name] - whole[base]) for name, base in NEAREST.items()}


def read_layer(folder: Path, layer: int, layers: pd.DataFrame) -> Sampled:
    """Return the sample of a layer. A cell that is sampled in part weighs as much as all its positions."""
    n = layers[layers["layer"] == layer].set_index("population")["n"]
    parts: list[list[Any]] = []
    with safe_open(folder / SAMPLE, "np") as file:
        for number, cell in enumerate(CELLS):
            name = f"layer{layer}.sample.{cell}"
            if f"{name}.key" in file.keys():  # noqa: SIM118 - not a mapping
                vectors, key, unit = (file.get_tensor(f"{name}.{field}") for field in ("vector", "key", "unit"))
                parts.append([vectors, key, unit, np.full(len(key), number), np.ones(len(key))])
    held = sum(len(part[1]) for part in parts)
    largest = max(parts, key=lambda part: len(part[1]))
    largest[4] *= 1 + (int(n["all"]) - held) / len(largest[1])
    return Sampled(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def find_sinks(cell: Ints) -> NDArray[np.bool_]:
    """Return which cells are of sinks: massive at this layer, or at another one."""
    return np.isin(cell, (*MASSIVE_CELLS, *SINK_CELLS))


def find_places(facts: dict[str, Any]) -> pd.DataFrame:
    """Return the position and the group of every possible row of a survey, by its key.

    With fewer than GROUPS documents, the groups are of windows: their errors are too small, since windows of one
    document are alike.
    """
    corpus_key = int(facts["corpus"]["sha256"][:16], 16)
    documents, longest = int(facts["corpus"]["documents"]), int(facts["settings"]["max_tokens"])
    document, window = (
        part.ravel().astype(np.uint64)
        for part in np.meshgrid(np.arange(documents), np.arange(MOST_WINDOWS), indexing="ij")
    )
    position = np.arange(longest)
    key = mix_on(np.repeat(mix(corpus_key, document, window), longest), np.tile(position, len(document)))
    named = document if documents >= GROUPS else document * np.uint64(MOST_WINDOWS) + window
    group = (mix(GROUP_SALT, corpus_key, named) % np.uint64(GROUPS)).astype(np.int64)
    columns = {"position": np.tile(position, len(document)), "group": np.repeat(group, longest)}
    return pd.DataFrame(columns, index=(key >> np.uint64(1)).astype(np.int64))


def list_sinks(massive: pd.DataFrame, places: pd.DataFrame, texts: dict[int, str]) -> pd.DataFrame:
    """Count the sinks by unit, position, and first and last layer at which they are massive. (sinks, layers)"""
    table, layers = massive.fillna(value=False).to_numpy(bool), massive.columns.to_numpy()
    last = len(layers) - 1 - table[:, ::-1].argmax(axis=1)
    found = pd.DataFrame({"text": [texts[key] for key in massive.index]})
    found["position"] = places.loc[massive.index, "position"].to_numpy()
    found["born"] = layers[table.argmax(axis=1)] if len(table) else []
    found["last"] = layers[last] if len(table) else []
    return found.groupby([*found.columns], sort=True).size().rename("n").reset_index()
