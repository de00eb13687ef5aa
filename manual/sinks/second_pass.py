"""Measure every layer with and without sinks on a corpus that was not surveyed, from all its states."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from manual.sinks.populations import (
    DELIMITER,
    FIRST,
    SINK,
    add_up,
    list_norms,
    list_rows,
    list_shapes,
    measure_populations,
)
from manual.sinks.reading import FINAL, SinkTables, is_delimiter
from theodolite.batch import Batch
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.text_corpus import open_corpus
from theodolite.sources.text.batches import TextBatch
from theodolite.state.pilot import Pilot
from theodolite.surveys.reopen import reopen


class States(NamedTuple):
    """The states of every layer, and where their rows stand."""

    vectors: dict[int, NDArray[np.float32]]  # (rows, dim) by layer
    unit: NDArray[np.int64]
    group: NDArray[np.int64]
    position: NDArray[np.int64]


def measure_corpus(folder: Path, corpus: str, limit: int) -> SinkTables:
    """Return the tables of a model on the first documents of a corpus, with the thresholds of one of its surveys.

    `folder` is the survey: its pilot says above which norm a position of a layer is massive. Memory: 4 bytes per
    coordinate, position and layer.
    """
    import theodolite

    survey = theodolite.open(folder)
    names = {layer["index"]: layer["name"] for layer in survey.facts["layers"]}
    reopened = reopen(describe_corpus(survey.facts, corpus, limit), list(names))
    states = read_states(reopened)
    pilot, known = Pilot.load(folder), reopened.source.units.known
    norms = {
        layer: np.linalg.norm(vectors.astype(np.float64), axis=1) for layer, vectors in states.vectors.items()
    }
    massive = {layer: norms[layer] > pilot.massive_above(layer) for layer in norms}
    sinks = np.any(list(massive.values()), axis=0)
    delimiters = np.array([is_delimiter(unit.text, special=unit.special) for unit in known])[states.unit]
    kind = FIRST * (states.position == 0) + SINK * sinks + DELIMITER * delimiters
    populations, by_sort, curves = [], [], []
    causal = bool(survey.facts["model"]["causal"])
    for layer, vectors in states.vectors.items():
        of_layer = {"causal": causal, "layer": layer, "layer_name": names[layer]}
        sums = add_up(vectors, kind, states.group)
        measured = measure_populations(sums)
        populations += [of_layer | row for row in list_rows(sums, *measured)]
        if names[layer] != FINAL:
            curves.append(measured)
        by_sort += [of_layer | row for row in list_norms(norms[layer], kind, massive[layer], np.ones(len(kind)))]
        print(f"  {names[layer]}", flush=True)
    found = {"text": [known[code].text for code in states.unit[sinks]], "position": states.position[sinks]}
    born, last = _layers_massive(massive, sinks)
    units = pd.DataFrame(found | {"born": born, "last": last})
    counted = units.groupby([*units.columns], sort=True).size().rename("n").reset_index()
    shapes = pd.DataFrame(list_shapes(*zip(*curves, strict=True))).assign(causal=causal)
    return SinkTables(pd.DataFrame(populations), shapes, pd.DataFrame(by_sort), counted)


def describe_corpus(facts: dict[str, Any], corpus: str, limit: int) -> dict[str, Any]:
    """Return the facts of a survey as if it had read these documents."""
    documents = open_corpus(corpus, CorpusOptions(limit=limit))
    found = scan(documents, shard_chars=facts["settings"]["shard_chars"])
    own = {"name": corpus, "sha256": found.sha256, "part": None}
    return facts | {"corpus": facts["corpus"] | own | {"filters": asdict(CorpusOptions(limit=limit))}}


def _layers_massive(massive: dict[int, NDArray[np.bool_]], sinks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first and the last layer at which each sink is massive. -> (2, sinks)"""
    layers = np.array(list(massive))
    table = np.stack(list(massive.values()))[:, sinks]
    last = len(layers) - 1 - table[::-1].argmax(axis=0)
    return np.stack([layers[table.argmax(axis=0)], layers[last]])


def read_states(reopened: Any) -> States:
    """Run all documents and keep every state."""
    parts: dict[int, list[torch.Tensor]] = {}
    places: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def sink(batch: Batch) -> None:
        parts.setdefault(batch.layer, []).append(batch.taken().to(torch.float32, copy=True))

    for documents in reopened.documents():
        for prepared in reopened.source.prepare(documents):
            reopened.source.run(prepared, sink)
            places.append((prepared.places.unit, prepared.places.group, find_positions(prepared)))
    unit, group, position = (torch.cat(column).numpy() for column in zip(*places, strict=True))
    return States({layer: torch.cat(of_layer).numpy() for layer, of_layer in parts.items()}, unit, group, position)


def find_positions(prepared: TextBatch) -> torch.Tensor:
    """Return the position in its window of each row of a batch. -> (rows,)"""
    if prepared.packed is not None:
        return prepared.packed.position.flatten()[prepared.rows]
    return prepared.rows % prepared.ids.shape[1]
