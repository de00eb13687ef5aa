"""Measuring a fixed probe set: one forward pass, a pilot from it, and the cheap columns of layers.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.batch import Batch
from theodolite.integrations.untouched import plain_torch
from theodolite.measures import spectrum as spectra
from theodolite.sources.layers import Layer
from theodolite.sources.source import Sink, Source
from theodolite.sources.text.source import TextBatch, TextSource
from theodolite.sources.units import Units
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.surveys.curves import scale_curve, spectrum_curve
from theodolite.surveys.pilot import take_pilot
from theodolite.surveys.rows import layer_row
from theodolite.surveys.shape import (
    COUNTS,
    GRAM,
    SAMPLED,
    SPECTRAL,
    TOO_WIDE,
    Shape,
    shape_of,
    spectral_numbers,
    variance_numbers,
)

NOT_ASKED = "not measured while training; dimension=True has all that the sample tells measured"


class Kept:
    """A source that gives the states of one forward pass again, so that pilot and fold need not run the model."""

    def __init__(self, source: TextSource, batches: Sequence[TextBatch]) -> None:
        self.layers: tuple[Layer, ...] = source.layers
        self.units: Units = source.units
        self._batches = batches
        self._states: list[list[Batch]] = [[] for _ in batches]
        for batch, states in zip(batches, self._states, strict=True):
            source.run(batch, states.append)

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> Sequence[_Again]:
        """Return all batches, whatever the documents."""
        return [_Again(b.positions, states) for b, states in zip(self._batches, self._states, strict=True)]

    def units_of(self, prepared: _Again) -> list[int]:
        """Return the codes of the units in a batch."""
        return sorted(set(prepared.states[0].places.unit.tolist()))

    def run(self, prepared: _Again, sink: Sink) -> None:
        """Hand the states over."""
        for batch in prepared.states:
            sink(batch)


class _Again:
    def __init__(self, positions: int, states: list[Batch]) -> None:
        self.positions = positions
        self.states = states


def measured(
    source: TextSource, batches: Sequence[TextBatch], populations: Sequence[str], *, dimension: bool = False
) -> pd.DataFrame:
    """Return rows of layers.parquet, one a layer and population. Memory: positions x layers x dim states.

    The model runs here: the caller has put it into evaluation mode.
    """
    kept: Source = Kept(source, batches)
    size = sum(batch.positions for batch in batches) if dimension else 0
    with plain_torch():
        pilot = take_pilot(kept, [], "")
        folds = {
            layer.index: LayerFold(pilot.frame(layer.index, populations=populations, sample_size=size))
            for layer in kept.layers
        }
        for prepared in kept.prepare([]):
            kept.run(prepared, lambda batch: folds[batch.layer].update(batch))
        return pd.DataFrame(
            [row for layer in kept.layers for row in _rows(layer, folds[layer.index], kept.units, populations)]
        )


def _rows(layer: Layer, fold: LayerFold, units: Units, populations: Sequence[str]) -> list[dict[str, Any]]:
    """Measure a layer's populations, those of the same vectors once."""
    special = [code for code, unit in enumerate(units.known) if unit.special]
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    rows = []
    for population in populations:
        cells = tuple(cell for cell in POPULATIONS[population] if fold.holds(cell)) or (0,)
        if cells not in found:
            shape = shape_of(fold, cells) if fold.frame.sample_size else cheap_shape(fold, cells)
            found[cells] = layer_row(fold, cells, with_units=layer.units, special=special, shape=shape)[0]
        head = {"layer": layer.index, "layer_name": layer.name, "library_index": layer.library_index}
        rows.append(head | {"population": population} | found[cells])
    return rows


def cheap_shape(fold: LayerFold, cells: Sequence[int]) -> Shape:
    """Return what the covariance's eigenvalues tell, and nothing that needs its vectors or a sample.

    One eigenproblem of dim x dim without vectors, where a survey solves two, one of them with.
    """
    left_out = (NOT_ASKED, dict.fromkeys((*SAMPLED, *GRAM, "stable_rank"), float("nan")))
    counts = dict.fromkeys(COUNTS, 0)
    n, matrix = (0, None) if fold.wide else fold.scatter.covariance(cells)
    if matrix is None or n < 2:
        reason = TOO_WIDE if fold.wide else "fewer than two vectors"
        nothing = (reason, dict.fromkeys(SPECTRAL, float("nan")))
        return Shape([nothing, left_out], counts, scale_curve(None), spectrum_curve(np.empty(0)))
    covariance = matrix.numpy()
    spectrum = spectra.eigenvalues(covariance)
    numbers = spectral_numbers(spectrum) | variance_numbers(np.diag(covariance))
    told = [("all vectors are equal", numbers), left_out]
    return Shape(told, counts, scale_curve(None), spectrum_curve(spectrum))
