"""Measure a fixed probe set: one forward pass, a pilot from it, and the cheap columns of layers.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.batch import Batch
from theodolite.integrations.model_state import default_torch
from theodolite.integrations.processes import Processes
from theodolite.integrations.share import Share
from theodolite.integrations.updates import BlockUpdates, average_updates
from theodolite.measures import spectrum as spectra
from theodolite.models.layers import Layer
from theodolite.sources.source import Sink, Source
from theodolite.sources.units import Units
from theodolite.state.pilot import take_pilot
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.sinks import BatchLayers
from theodolite.tables.curves import scale_curve, spectrum_curve
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import (
    COUNTS,
    GRAM,
    SAMPLED,
    SPECTRAL,
    TOO_WIDE,
    Shape,
    measure_shape,
    spectral_numbers,
    variance_numbers,
)
from theodolite.tables.tables import measure_populations

SAMPLE_COLUMNS = (*SAMPLED, *GRAM, "stable_rank", *COUNTS)
"""Columns that are measured only with dimension=True."""
NOT_MEASURED = "not measured while training; set dimension=True to compute it from a sample"


class ReplayedSource:
    """A source that replays the states of one forward pass, so that pilot and fold do not run the model again.

    Runs of the model beyond those of the batches only keep in step with other processes; their states are dropped.
    """

    def __init__(self, source: Source, share: Share) -> None:
        self.layers: tuple[Layer, ...] = source.layers
        self.units: Units = source.units
        self._batches = share.batches
        self._states: list[list[Batch]] = [[] for _ in share.batches]
        self.updates = BlockUpdates(source)
        for batch, states in zip(share.batches, self._states, strict=True):
            with self.updates.add(batch):
                source.run(batch, states.append)
        for batch in share.idle:
            source.run(batch, lambda states: None)

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
    source: Source,
    share: Share,
    populations: Sequence[str],
    *,
    dimension: bool = False,
    processes: Processes = Processes(),  # noqa: B008 - frozen
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return rows of layers.parquet, one per layer and population, and the mean of |y - x|/|x| of each block.

    Every process gets those of the whole set.

    This runs the model, which the caller must have put into evaluation mode, and keeps the states of all layers in
    memory: (layers, positions, dim). Each process folds its share; the sums of a layer are merged in one of them,
    which measures it, another one for each layer.
    """
    with processes.fail_together():
        replayed = ReplayedSource(source, share)
    size = share.positions if dimension else 0
    with default_torch():
        pilot = take_pilot(replayed, [], "", processes.all_gather if processes.size > 1 else None)
        with processes.fail_together():
            folds = {
                layer.index: LayerFold(pilot.frame(layer.index, populations=populations, sample_size=size))
                for layer in replayed.layers
            }
            for prepared in replayed.prepare([]):
                layers = BatchLayers(folds)
                replayed.run(prepared, layers.add)
                layers.finish()
        special = [code for code, unit in enumerate(replayed.units.known) if unit.special]
        mine = [layer for number, layer in enumerate(replayed.layers) if _merge(folds, layer, number, processes)]
        with processes.fail_together():
            rows = [row for layer in mine for row in _rows(layer, folds[layer.index], special, populations)]
        merged: list[dict[str, Any]] = [row for part in processes.all_gather(rows) for row in part]
        merged.sort(key=lambda row: (row["layer"], populations.index(row["population"])))
        table = pd.DataFrame(merged)
        return table, average_updates(processes.all_gather(replayed.updates.sums()))


def _merge(folds: dict[int, LayerFold], layer: Layer, number: int, processes: Processes) -> bool:
    """Send the sums of a layer to the process that measures it; return whether it is this one."""
    if processes.size == 1:
        return True
    fold, to = folds[layer.index], number % processes.size
    for rank, state in enumerate(processes.gather(fold.state(), to)):
        if rank != to:
            other = LayerFold(fold.frame)
            other.load(state)
            fold.merge(other)
    return processes.rank == to


def _rows(
    layer: Layer, fold: LayerFold, special: Sequence[int], populations: Sequence[str]
) -> list[dict[str, Any]]:
    def measure(cells: tuple[int, ...]) -> dict[str, Any]:
        shape = measure_shape(fold, cells) if fold.frame.sample_size else measure_spectrum(fold, cells)
        return make_layer_row(fold, cells, with_units=layer.units, special=special, shape=shape)[0]

    head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
    measured = measure_populations(fold, populations, measure)
    return [head | {"population": population} | measured[population] for population in populations]


def measure_spectrum(fold: LayerFold, cells: Sequence[int]) -> Shape:
    """Return the measures that need only the eigenvalues of the covariance; all others are undefined.

    This solves one eigenproblem of dim x dim without eigenvectors. A survey solves two, one of them with.
    """
    omitted = (NOT_MEASURED, dict.fromkeys((*SAMPLED, *GRAM, "stable_rank"), float("nan")))
    counts = dict.fromkeys(COUNTS, 0)
    n, matrix = (0, None) if fold.wide else fold.scatter.covariance(cells)
    if matrix is None or n < 2:
        reason = TOO_WIDE if fold.wide else "fewer than two vectors"
        undefined = (reason, dict.fromkeys(SPECTRAL, float("nan")))
        return Shape([undefined, omitted], counts, scale_curve(None), spectrum_curve(np.empty(0)))
    covariance = matrix.numpy()
    spectrum = spectra.eigenvalues(covariance)
    numbers = spectral_numbers(spectrum) | variance_numbers(np.diag(covariance))
    return Shape(
        [("all vectors are equal", numbers), omitted], counts, scale_curve(None), spectrum_curve(spectrum)
    )
