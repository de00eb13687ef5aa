"""Measure a fixed probe set: one forward pass, a pilot from it, and the cheap columns of layers.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.batch import Batch
from theodolite.integrations.model_state import default_torch
from theodolite.models.layers import Layer
from theodolite.sources.source import Sink, Source
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource
from theodolite.sources.units import Units
from theodolite.state.pilot import take_pilot
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.sinks import BatchLayers
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import COUNTS, GRAM, SAMPLED, UNCENTRED, measure_shape, measure_spectrum
from theodolite.tables.tables import measure_populations

SAMPLE_COLUMNS = (*SAMPLED, *GRAM, *UNCENTRED, *COUNTS)
"""Columns that are measured only with dimension=True."""
NOT_MEASURED = "not measured while training; set dimension=True to compute it from a sample"


class ReplayedSource:
    """A source that replays the states of one forward pass, so that pilot and fold do not run the model again."""

    def __init__(self, source: TextSource, batches: Sequence[TextBatch]) -> None:
        self.layers: tuple[Layer, ...] = source.layers
        self.units: Units = source.units
        self._batches = batches
        self._states: list[list[Batch]] = [[] for _ in batches]
        for batch, states in zip(batches, self._states, strict=True):
            source.run(batch, states.append)

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> Sequence[_ReplayedBatch]:
        """Return all batches, whatever the documents."""
        return [_ReplayedBatch(b.positions, states) for b, states in zip(self._batches, self._states, strict=True)]

    def units_of(self, prepared: _ReplayedBatch) -> list[int]:
        """Return the codes of the units in a batch."""
        return sorted(set(prepared.states[0].places.unit.tolist()))

    def run(self, prepared: _ReplayedBatch, sink: Sink) -> None:
        """Pass the recorded states to the sink."""
        for batch in prepared.states:
            sink(batch)


class _ReplayedBatch:
    def __init__(self, positions: int, states: list[Batch]) -> None:
        self.positions = positions
        self.states = states


def measure_layers(
    source: TextSource, batches: Sequence[TextBatch], populations: Sequence[str], *, dimension: bool = False
) -> pd.DataFrame:
    """Return rows of layers.parquet, one per layer and population.

    This runs the model, which the caller must have put into evaluation mode, and keeps the states of all layers in
    memory: (layers, positions, dim).
    """
    replayed: Source = ReplayedSource(source, batches)
    size = sum(batch.positions for batch in batches) if dimension else 0
    with default_torch():
        pilot = take_pilot(replayed, [], "")
        folds = {
            layer.index: LayerFold(pilot.frame(layer, populations=populations, sample_size=size))
            for layer in replayed.layers
        }
        for prepared in replayed.prepare([]):
            layers = BatchLayers(folds)
            replayed.run(prepared, layers.add)
            layers.finish()
        special = [code for code, unit in enumerate(replayed.units.known) if unit.special]
        return pd.DataFrame(
            [row for layer in replayed.layers for row in _rows(layer, folds[layer.index], special, populations)]
        )


def _rows(
    layer: Layer, fold: LayerFold, special: Sequence[int], populations: Sequence[str]
) -> list[dict[str, Any]]:
    def measure(cells: tuple[int, ...]) -> dict[str, Any]:
        shape = (
            measure_shape(fold, cells) if fold.frame.sample_size else measure_spectrum(fold, cells, NOT_MEASURED)
        )
        return make_layer_row(fold, cells, with_units=layer.units, special=special, shape=shape)[0]

    head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
    measured = measure_populations(fold, populations, measure)
    return [head | {"population": population} | measured[population] for population in populations]
