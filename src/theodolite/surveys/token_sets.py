"""Token sets: the vectors of a few chosen units, from a second pass over the documents that contain them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.sources.text.units import find_case_folding, group_words, list_vocabulary
from theodolite.sources.units import Unit, Units
from theodolite.state.pilot import Pilot
from theodolite.statistics.cells import MASSIVE_CELLS, POPULATIONS, SINK_CELLS
from theodolite.statistics.rows import row_norms
from theodolite.statistics.sample import Reservoir
from theodolite.surveys.reopen import Reopened


@dataclass(frozen=True, eq=False)
class TokenSets:
    """The sets of all chosen units, concatenated; the rows of a set are in the order of their keys."""

    vectors: Tensor  # (rows, dim) float32
    unit: Tensor  # (rows,) int64, which of the chosen units
    key: Tensor  # (rows,) int64
    means: Tensor  # (units, dim) float64, over all occurrences in the population, kept or not
    n: Tensor  # (units,) int64, occurrences in the population
    met: Tensor  # (units,) int64, all occurrences
    documents: int  # that contain a chosen unit


@dataclass(frozen=True, slots=True)
class PositionFilter:
    """Selects the positions of a population; a norm above `massive_above` is massive."""

    population: str = "all"
    massive_above: float = math.inf

    def select(self, vectors: Tensor, first: Tensor, sinks: Tensor | None = None) -> Tensor:
        """Return whether each row is selected. vectors: (rows, dim), first and sinks: (rows,) -> (rows,)"""
        norms = torch.linalg.vector_norm(vectors, dim=1).double()
        elsewhere = torch.zeros_like(first) if sinks is None else sinks
        cell = first + torch.where(norms > self.massive_above, MASSIVE_CELLS[0], SINK_CELLS[0] * elsewhere)
        return torch.isin(cell, torch.tensor(POPULATIONS[self.population]))


ALL_POSITIONS = PositionFilter()


class SinkRecorder:
    """Records the positions that are massive at any layer of a pass, by their keys; a stack has its own."""

    def __init__(self, layers: Sequence[Layer], pilot: Pilot) -> None:
        self._stack = {layer.index: layer.stack for layer in layers}
        self._above = {index: pilot.massive_above(index) for index in self._stack}
        self._keys: dict[str, list[Tensor]] = {stack: [] for stack in self._stack.values()}

    def record(self, batch: Batch) -> None:
        """Record the massive positions of one layer."""
        norms = row_norms(batch.taken().detach().float().cpu())
        massive = torch.isfinite(norms) & (norms > self._above[batch.layer])
        if massive.any():
            self._keys[self._stack[batch.layer]].append(batch.places.key[massive])

    def find(self, layer: int, key: Tensor) -> Tensor:
        """Return which positions of a layer were recorded. (rows,) -> (rows,)"""
        found = self._keys[self._stack[layer]]
        return torch.isin(key, torch.cat(found)) if found else torch.zeros_like(key, dtype=torch.bool)


class UnitSet:
    """The vectors of one unit: the sum of all selected ones, and those with the smallest keys."""

    def __init__(self, most: int, dim: int) -> None:
        self.kept = Reservoir(most)
        self.n = self.met = 0
        self.sum = torch.zeros(dim, dtype=torch.float64)

    def update(self, vectors: Tensor, key: Tensor, selected: Tensor) -> None:
        """Add (rows, dim) vectors with their keys; NaN and infinite ones are excluded, as in the survey."""
        finite = torch.isfinite(vectors).all(dim=1)
        self.met += int(finite.sum())
        vectors, key = vectors[finite & selected], key[finite & selected]
        self.n += len(vectors)
        self.sum += vectors.double().sum(dim=0)
        self.kept.offer(key=key, vector=vectors)


def gather(
    reopened: Reopened,
    units: Sequence[str],
    *,
    most: int = 200,
    among: PositionFilter = ALL_POSITIONS,
    layer: int | None = None,
    pilot: Pilot | None = None,
    listener: Listener | None = None,
) -> TokenSets:
    """Run the documents that contain one of the units (by key) through the model, for `layer` or its only one.

    With the `pilot` of the survey, positions that are massive at any layer of the source are sinks.
    Of each unit at most `most` vectors are kept, those with the smallest keys, which does not depend on batches or
    machines. Memory: 4 dim `most` bytes per unit.
    """
    listener = listener or Listener()
    source = reopened.source
    (target,) = (each for each in source.layers if layer is None or each.index == layer)
    codes = _codes(source.units, units)
    containing = _documents_with_units(reopened, set(codes))
    listener.say(
        f"second pass, layer {target.index}: {len(containing):,} of {len(reopened):,} documents contain "
        f"one of the {len(units)} chosen tokens"
    )
    sets = {code: UnitSet(most, target.dim) for code in codes}
    sinks = None if pilot is None else SinkRecorder(source.layers, pilot)
    _run(reopened, containing, sets, among, target.index, sinks, listener)
    return _join_sets([sets[code] for code in codes], target.dim, len(containing))


def _run(
    reopened: Reopened,
    containing: set[int],
    sets: dict[int, UnitSet],
    among: PositionFilter,
    layer: int,
    sinks: SinkRecorder | None,
    listener: Listener,
) -> None:
    chosen = torch.tensor(sorted(sets))
    waiting: list[tuple[Places, Tensor]] = []

    def sink(batch: Batch) -> None:
        if sinks is not None:
            sinks.record(batch)
        if batch.layer == layer:
            rows = torch.isin(batch.places.unit, chosen).nonzero().squeeze(1)
            waiting.append((batch.places.take(rows), batch.states[rows].float()))

    def add(places: Places, vectors: Tensor) -> None:
        found, key = places.unit, places.key
        selected = among.select(vectors, places.first, None if sinks is None else sinks.find(layer, key))
        for code in set(found.tolist()):
            rows_of_unit = found == code
            sets[code].update(vectors[rows_of_unit], key[rows_of_unit], selected[rows_of_unit])

    began, done, positions = time.monotonic(), 0, 0
    for documents in reopened.documents():
        batches = reopened.source.prepare([(number, text) for number, text in documents if number in containing])
        held = sum(number in containing for number, _ in documents)
        for place, prepared in enumerate(batches, 1):
            reopened.source.run(prepared, sink)
            add(*waiting.pop())  # when all layers have run, so that the sinks are known
            positions += prepared.positions
            share = (done + held * place / len(batches)) / len(containing)
            listener.progress(Progress(share, positions, time.monotonic() - began))
            if listener.stop():
                raise TheodoliteError("Interrupted. No token sets were written.")
        done += held


def _codes(units: Units, keys: Sequence[str]) -> list[int]:
    """Return the codes of the units; words get theirs now."""
    if units.kind == "word":
        return [units.add(Unit(key, key)) for key in keys]
    codes = [units.code(key) for key in keys]
    if None in codes:
        raise InputError(
            f"The tokenizer has no unit {keys[codes.index(None)]!r}. Is it the tokenizer of the surveyed model?"
        )
    return [code for code in codes if code is not None]


def _documents_with_units(reopened: Reopened, units: set[int]) -> set[int]:
    """Return the numbers of the documents in which one of the units occurs; tokenizes all, runs none."""
    source, by_word = reopened.source, reopened.source.units.kind == "word"
    codes = np.asarray(list_vocabulary(source.tokenizer, source.units.kind)[1], dtype=np.int64)
    chosen, found = np.array(sorted(units)), set[int]()
    read = find_case_folding(source.tokenizer)
    for documents in reopened.documents():
        met = Units(source.units.kind, list(source.units.known)) if by_word else source.units
        windows, texts = source.windows(documents)
        for window in windows:
            if by_word:
                every = np.arange(len(window))
                window_codes = group_words(window, every, texts[window.document], met, codes, read).code
            else:
                window_codes = codes[window.ids]
            if np.isin(window_codes, chosen).any():
                found.add(window.document)
    return found


def _join_sets(sets: Sequence[UnitSet], dim: int, documents: int) -> TokenSets:
    rows = [each.kept.sorted() for each in sets]
    empty = {"vector": torch.zeros(0, dim), "key": torch.zeros(0, dtype=torch.int64)}
    rows = [each or empty for each in rows]
    n = torch.tensor([each.n for each in sets])
    return TokenSets(
        vectors=torch.cat([each["vector"] for each in rows]),
        unit=torch.repeat_interleave(torch.tensor([len(each["key"]) for each in rows])),
        key=torch.cat([each["key"] for each in rows]),
        means=torch.stack([each.sum for each in sets]) / n[:, None],
        n=n,
        met=torch.tensor([each.met for each in sets]),
        documents=documents,
    )
