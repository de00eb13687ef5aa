"""Token sets: the vectors of a few chosen units, from a second pass over only the documents that hold them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.text.vocabulary import vocabulary
from theodolite.sources.text.words import words_of
from theodolite.sources.units import Unit, Units
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.sample import Reservoir
from theodolite.surveys.listener import Listener, Progress
from theodolite.surveys.reopening import Reopened


@dataclass(frozen=True, eq=False)
class TokenSets:
    """The sets of all chosen units, one below the other; in a set the rows stand in the order of their keys."""

    vectors: Tensor  # (rows, dim) float32
    unit: Tensor  # (rows,) int64, which of the chosen units
    key: Tensor  # (rows,) int64
    means: Tensor  # (units, dim) float64, over every occurrence that counts, kept or not
    n: Tensor  # (units,) int64, occurrences that count
    met: Tensor  # (units,) int64, occurrences in all
    documents: int  # that hold a chosen unit


@dataclass(frozen=True, slots=True)
class Among:
    """Which positions count: those of a population, a norm above `massive_above` being a massive one."""

    population: str = "all"
    massive_above: float = math.inf

    def has(self, vectors: Tensor, first: Tensor) -> Tensor:
        """Say of each row whether it counts. vectors: (rows, dim), first: (rows,) -> (rows,)"""
        norms = torch.linalg.vector_norm(vectors, dim=1).double()
        cell = first.long() + 2 * (norms > self.massive_above)
        return torch.isin(cell, torch.tensor(POPULATIONS[self.population]))


EVERYWHERE = Among()


class UnitSet:
    """One unit's vectors: the sum of all that count, and of these the ones of smallest key."""

    def __init__(self, most: int, dim: int) -> None:
        self.kept = Reservoir(most)
        self.n = self.met = 0
        self.sum = torch.zeros(dim, dtype=torch.float64)

    def update(self, vectors: Tensor, key: Tensor, counts: Tensor) -> None:
        """Take in (rows, dim) vectors with their keys; NaN and infinite ones are left out, as in the survey."""
        finite = torch.isfinite(vectors).all(dim=1)
        self.met += int(finite.sum())
        vectors, key = vectors[finite & counts], key[finite & counts]
        self.n += len(vectors)
        self.sum += vectors.double().sum(dim=0)
        self.kept.offer(key=key, vector=vectors)


def gather(
    reopened: Reopened,
    units: Sequence[str],
    *,
    most: int = 200,
    among: Among = EVERYWHERE,
    listener: Listener | None = None,
) -> TokenSets:
    """Run the documents that hold one of the units (by key) through the model, for its one layer.

    Of each unit at most `most` vectors are kept, those of smallest key of those that count, whatever the batches
    and the machine.
    Memory: 4 dim `most` bytes a unit.
    """
    listener = listener or Listener()
    source = reopened.source
    (layer,) = source.layers
    codes = _codes(source.units, units)
    holding = _holding(reopened, set(codes))
    listener.say(
        f"second pass, layer {layer.index}: {len(holding):,} of {len(reopened):,} documents hold "
        f"one of the {len(units)} chosen tokens"
    )
    sets = {code: UnitSet(most, layer.dim) for code in codes}
    _run(reopened, holding, sets, among, listener)
    return _joined([sets[code] for code in codes], layer.dim, len(holding))


def _run(
    reopened: Reopened, holding: set[int], sets: dict[int, UnitSet], among: Among, listener: Listener
) -> None:
    chosen = torch.tensor(sorted(sets))

    def sink(batch: Batch) -> None:
        rows = torch.isin(batch.places.unit, chosen).nonzero().squeeze(1)
        found, vectors, key = batch.places.unit[rows], batch.states[rows].float(), batch.places.key[rows]
        counts = among.has(vectors, batch.places.first[rows])
        for code in set(found.tolist()):
            here = found == code
            sets[code].update(vectors[here], key[here], counts[here])

    began, done, positions = time.monotonic(), 0, 0
    for documents in reopened.documents():
        batches = reopened.source.prepare([(number, text) for number, text in documents if number in holding])
        held = sum(number in holding for number, _ in documents)
        for place, prepared in enumerate(batches, 1):
            reopened.source.run(prepared, sink)
            positions += prepared.positions
            share = (done + held * place / len(batches)) / len(holding)
            listener.progress(Progress(share, positions, time.monotonic() - began))
            if listener.stop():
                raise TheodoliteError("Interrupted; no token sets were written.")
        done += held


def _codes(units: Units, keys: Sequence[str]) -> list[int]:
    """Return the units' codes; words, which get theirs as they are met, are met now."""
    if units.kind == "word":
        return [units.add(Unit(key, key)) for key in keys]
    codes = [units.code(key) for key in keys]
    if None in codes:
        raise InputError(f"The tokenizer knows no unit {keys[codes.index(None)]!r}; is it the surveyed model's?")
    return [code for code in codes if code is not None]


def _holding(reopened: Reopened, wanted: set[int]) -> set[int]:
    """Return the numbers of the documents in which a wanted unit occurs; tokenizes all, runs none."""
    source, by_word = reopened.source, reopened.source.units.kind == "word"
    codes = np.asarray(vocabulary(source.tokenizer, source.units.kind)[1], dtype=np.int64)
    chosen, found = np.array(sorted(wanted)), set[int]()
    for documents in reopened.documents():
        met = Units(source.units.kind, list(source.units.known)) if by_word else source.units
        windows, texts = source.windows(documents)
        for window in windows:
            if by_word:
                every = np.arange(len(window))
                here = words_of(window, every, texts[window.document], met, codes).code
            else:
                here = codes[window.ids]
            if np.isin(here, chosen).any():
                found.add(window.document)
    return found


def _joined(sets: Sequence[UnitSet], dim: int, documents: int) -> TokenSets:
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
