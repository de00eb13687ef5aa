"""The states of a few stretches of the corpus, layer by layer, from a second pass over them alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import TheodoliteError
from theodolite.sources.layers import Layer
from theodolite.sources.text.source import TextBatch
from theodolite.surveys.listener import Listener, Progress
from theodolite.surveys.memory import size
from theodolite.surveys.reopening import Reopened
from theodolite.surveys.stretches import INTERRUPTED, Stretch

BUDGET = 2**30
"""Bytes of states held at a time, unless one layer alone has more."""


@dataclass(frozen=True, eq=False)
class States:
    """One layer's states of all stretches; NaN and infinite ones are left out, as in the survey."""

    vectors: Tensor  # (rows, dim) float32
    key: Tensor  # (rows,) int64, whose order is a shuffle
    context: Tensor  # (rows,) int64
    first: Tensor  # (rows,) bool
    stretch: Tensor  # (rows,) int64, which of the stretches


def states_of(
    reopened: Reopened, stretches: Sequence[Stretch], *, budget: int = BUDGET, listener: Listener | None = None
) -> Iterator[tuple[Layer, States]]:
    """Run the stretches through the model and yield each layer's states.

    Memory: 4 dim bytes a position and layer, for as many layers as fit into the budget (at least one); where not
    all do, the model runs once for every group of layers.
    """
    listener = listener or Listener()
    batches = _prepared(reopened, stretches)
    rows = sum(batch.positions for of_stretch in batches for batch in of_stretch)
    groups = grouped(reopened.source.layers, rows, budget)
    if len(groups) > 1:
        listener.say(
            f"{rows:,} positions of {len(reopened.source.layers)} layers would not fit into {size(budget)}: "
            f"the model runs {len(groups)} times, for {max(map(len, groups))} layers or fewer at a time"
        )
    told = Told(rows * len(groups), listener)
    for group in groups:
        held = _run(reopened, group, batches, told)
        for layer in group:
            yield layer, _joined(held.pop(layer.index))


def grouped(layers: Sequence[Layer], rows: int, budget: int) -> list[list[Layer]]:
    """Return the layers in groups whose states fit into the budget, in order."""
    groups: list[list[Layer]] = []
    left = 0
    for layer in layers:
        need = 4 * layer.dim * rows
        if not groups or need > left:
            groups.append([])
            left = budget
        groups[-1].append(layer)
        left -= need
    return groups


class Told:
    """Tells how far the model has come, and asks whether to stop."""

    def __init__(self, total: int, listener: Listener) -> None:
        self._total, self._listener = total, listener
        self._done, self._seconds = 0, 0.0

    def ran(self, positions: int, seconds: float) -> None:
        """Take in that one more batch is done."""
        self._done += positions
        self._seconds += seconds
        self._listener.progress(Progress(self._done / self._total, self._done, self._seconds))
        if self._listener.stop():
            raise TheodoliteError(INTERRUPTED)


def _prepared(reopened: Reopened, stretches: Sequence[Stretch]) -> list[list[TextBatch]]:
    """Return each stretch's batches, from one reading of the corpus."""
    documents = {document for stretch in stretches for document, _ in stretch.windows}
    texts = {number: text for some in reopened.documents() for number, text in some if number in documents}
    prepared = []
    for stretch in stretches:
        held = dict.fromkeys(document for document, _ in stretch.windows)
        of_stretch = [(number, texts[number]) for number in held]
        prepared.append(reopened.source.prepare(of_stretch, only=set(stretch.windows)))
    return prepared


Parts = list[tuple[Batch, int]]


def _run(
    reopened: Reopened, layers: Sequence[Layer], batches: Sequence[Sequence[TextBatch]], told: Told
) -> dict[int, Parts]:
    held: dict[int, Parts] = {layer.index: [] for layer in layers}
    source = reopened.source.narrowed(layers)
    for stretch, of_stretch in enumerate(batches):

        def sink(batch: Batch, stretch: int = stretch) -> None:
            own = batch.states.to(torch.float32, copy=True)  # blocks may write over what they gave out
            held[batch.layer].append((Batch(batch.layer, own, batch.places), stretch))

        for prepared in of_stretch:
            began = time.monotonic()
            source.run(prepared, sink)
            told.ran(prepared.positions, time.monotonic() - began)
    return held


def _joined(parts: Parts) -> States:
    vectors = torch.cat([batch.states for batch, _ in parts])
    places = [batch.places for batch, _ in parts]
    stretch = torch.cat([torch.full((len(batch.places),), number) for batch, number in parts])
    found = States(
        vectors,
        torch.cat([one.key for one in places]),
        torch.cat([one.context for one in places]),
        torch.cat([one.first for one in places]),
        stretch,
    )
    finite = torch.isfinite(vectors).all(dim=1)
    if finite.all():
        return found
    return States(*(field[finite] for field in (vectors, found.key, found.context, found.first, stretch)))
