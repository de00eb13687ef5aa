"""Measure a fixed probe set: one forward pass, a pilot from it, and the cheap columns of layers.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from theodolite.batch import Batch
from theodolite.devices import make_current
from theodolite.integrations.model_state import default_torch
from theodolite.integrations.processes import Processes
from theodolite.integrations.share import Share
from theodolite.integrations.updates import BlockUpdates, average_updates
from theodolite.models.layers import Layer
from theodolite.sources.source import Sink, Source
from theodolite.sources.units import Units
from theodolite.state.pilot import take_pilot
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.sinks import BatchLayers
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import COUNTS, GRAM, SAMPLED, UNCENTRED, measure_shape, measure_spectrum
from theodolite.tables.tables import measure_populations

SAMPLE_COLUMNS = (*SAMPLED, *GRAM, *UNCENTRED, *COUNTS)
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
) -> tuple[pd.DataFrame, dict[str, float], dict[int, Frame]]:
    """Return rows of layers.parquet, one per layer and population, and the mean of |w|/|x| of each block.

    Every process gets those of the whole set. The third are the frames by layer, which other sums may share.

    This runs the model, which the caller must have put into evaluation mode, and keeps the states of all layers in
    memory: (layers, positions, dim). Each process folds its share; the sums of a layer are merged in one of them,
    which measures it, another one for each layer.
    """
    with processes.fail_together():
        replayed = ReplayedSource(source, share)
    size = share.positions if dimension else 0
    with default_torch():
        pilot = take_pilot(replayed, [], processes.all_gather if processes.size > 1 else None)
        with processes.fail_together():
            folds = {
                layer.index: LayerFold(pilot.frame(layer, populations=populations, sample_size=size))
                for layer in replayed.layers
            }
            for prepared in replayed.prepare([]):
                layers = BatchLayers(folds)
                replayed.run(prepared, layers.add)
                layers.finish()
        special = [code for code, unit in enumerate(replayed.units.known) if unit.special]
        table = measure_folds(
            replayed.layers,
            folds,
            populations,
            processes=processes,
            device=_find_gpu(source),
            special=special,
            with_units=True,
        )
        frames = {index: replace(fold.frame, sample_size=0) for index, fold in folds.items()}
        return table, average_updates(processes.all_gather(replayed.updates.sums())), frames


def measure_folds(
    layers: Sequence[Layer],
    folds: dict[int, LayerFold],
    populations: Sequence[str],
    *,
    processes: Processes,
    device: str | None = None,
    special: Sequence[int] = (),
    with_units: bool = False,
) -> pd.DataFrame:
    """Return rows of layers.parquet from the sums of all processes; eigenvalues are computed on the device."""

    def measure(layer: Layer, cells: tuple[int, ...]) -> dict[str, Any]:
        fold = folds[layer.index]
        if fold.frame.sample_size:
            shape = measure_shape(fold, cells, device)
        else:
            shape = measure_spectrum(fold, cells, NOT_MEASURED, device=device)
        units = with_units and layer.units
        return make_layer_row(fold, cells, with_units=units, special=special, shape=shape)[0]

    with default_torch():
        mine = [layer for number, layer in enumerate(layers) if _merge(folds, layer, number, processes)]
        rows: list[dict[str, Any]] = []
        with processes.fail_together(), make_current(device):
            for layer in mine:
                head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
                measured = measure_populations(folds[layer.index], populations, partial(measure, layer))
                rows += [head | {"population": name} | measured[name] for name in populations]
        merged = [row for part in processes.all_gather(rows) for row in part]
        merged.sort(key=lambda row: (row["layer"], populations.index(row["population"])))
        return pd.DataFrame(merged)


def _find_gpu(source: Source) -> str | None:
    device = str(getattr(source, "device", "cpu"))
    return device if device.startswith("cuda") else None


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
