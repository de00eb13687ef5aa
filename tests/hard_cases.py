"""Difficult vectors, similar to those of real models, on which statistics and measures are tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tests import oracles
from torch import Tensor

from theodolite.batch import GROUPS, Batch, Places
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import Statistic

OFFSET = 3000.0  # the mean of one coordinate
LONGER = 150  # the ratio of the norms of first and other positions
WINDOW = 40
SEEN_ONCE = 70  # the code of a unit with a single occurrence
BOS = 0  # first but for three times: a subtraction of first positions leaves a small remainder


S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class Case:
    """Rows of one layer, and the frame that a pilot would choose."""

    states: Tensor
    places: Places
    frame: Frame

    @property
    def x(self) -> NDArray[np.float64]:
        return self.states.double().numpy()

    @property
    def unit(self) -> NDArray[np.int64]:
        return self.places.unit.numpy()

    def batches(self, size: int = 257) -> list[Batch]:
        rows = torch.arange(len(self.places)).split(size)
        return [Batch(0, self.states[part], self.places.take(part)) for part in rows]

    def cells(self) -> NDArray[np.int64]:
        return oracles.cells(self.x, self.places.first.numpy(), self.frame.massive_above)

    def belongs(self, population: str) -> NDArray[np.bool_]:
        """Return which rows belong to a population, by definition."""
        return np.isin(self.cells(), POPULATIONS[population])

    def fold(self, frame: Frame | None = None, size: int = 257) -> LayerFold:
        fold = LayerFold(frame or self.frame)
        for batch in self.batches(size):
            fold.update(batch)
        return fold


def folded(kind: type[S], case: Case, frame: Frame | None = None, size: int = 257) -> S:
    """Return a statistic updated with all batches of the case."""
    frame = frame or case.frame
    statistic = kind(frame)
    for batch in case.batches(size):
        statistic.update(Rows.of(batch, frame))
    return statistic


def places(unit: Tensor, first: Tensor | None = None, document: Tensor | None = None, seed: int = 0) -> Places:
    """Return places for units; by default no first positions, documents of 100 rows and distinct keys."""
    n = len(unit)
    document = torch.arange(n) // 100 if document is None else document
    key = torch.randperm(n, generator=torch.Generator().manual_seed(seed)) * 2**30 + seed
    return Places(
        unit=unit.long(),
        group=document % GROUPS,
        first=torch.zeros(n, dtype=torch.bool) if first is None else first,
        key=key,
        context=torch.arange(n),
        window=document,
        position=torch.arange(n),
    )


def of_states(states: Tensor, unit: Tensor | None = None, **frame: object) -> Case:
    """Return a case of these rows; by default with one unit and about the median."""
    unit = torch.zeros(len(states)) if unit is None else unit
    settings = {"centre": median(states), "sample_size": 64} | frame
    return Case(states, places(unit), Frame(**settings))


def median(states: Tensor) -> Tensor:
    return states.float().median(dim=0).values


def hard(
    dtype: torch.dtype = torch.float32, dim: int = 48, rows: int = 3000, offset: float = OFFSET, seed: int = 0
) -> Case:
    """One coordinate at 3,000, first positions 150 times as long, half the rows duplicates, a unit seen once.

    Units 1 to 60 have different means and a variance of 1 in every coordinate; unit 0 is nearly always first.
    """
    random = torch.Generator().manual_seed(seed)
    unit = torch.randint(1, 61, (rows,), generator=random).square() // 61 + 1  # some rare, some frequent
    means = torch.randn(61 + 1, dim, generator=random)
    states = means[unit] + torch.randn(rows, dim, generator=random)
    states[:, dim // 2] += offset
    ordinary = float(torch.linalg.vector_norm(states, dim=1).median())
    # Duplicates: every odd row repeats the one before it, including its unit.
    states[1::2], unit[1::2] = states[0::2].clone(), unit[0::2]
    first = torch.arange(rows) % WINDOW == 0
    unit[first] = torch.where(torch.rand(int(first.sum()), generator=random) < 0.8, BOS, unit[first])
    directions = torch.nn.functional.normalize(torch.randn(int(first.sum()), dim, generator=random), dim=1)
    states[first] = directions * LONGER * ordinary
    unit[[7, 31, 57]] = BOS
    unit[33] = SEEN_ONCE
    states = states.to(dtype)
    where = places(unit, first, document=torch.arange(rows) // (2 * WINDOW), seed=seed)
    frame = Frame(median(states[~first]), 10 * ordinary, sample_size=256, frequent=(0, 5, 7, SEEN_ONCE, 999))
    return Case(states, where, frame)
