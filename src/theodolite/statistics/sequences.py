"""Sequences: how the vectors of a window follow each other, as prompt entropy and curvature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import GROUPS
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows
from theodolite.statistics.statistic import State, Statistic
from theodolite.trajectories import matrix_entropy, turning_angles

FIELDS = ("entropy_n", "entropy", "curvature_n", "curvature")


class Sequences(Statistic):
    """By population and document group: windows with an entropy and its sum, windows with a curvature and its sum.

    A window is never split between batches. The positions of a population keep their order, and a position that
    is left out is not bridged: an angle requires three positions of the population that follow each other.
    Rows without an order are ignored. Memory: 320 numbers.
    """

    name: ClassVar[str] = "sequences"
    in_estimate: ClassVar[bool] = False  # 320 numbers
    whole_windows: ClassVar[bool] = True

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        shape = (len(POPULATIONS), GROUPS)
        self.entropy_n, self.curvature_n = (torch.zeros(shape, dtype=torch.int64) for _ in range(2))
        self.entropy, self.curvature = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))

    def update(self, rows: Rows) -> None:
        """Add the windows of the batch. O(rows x dim x window), and an eigenproblem per window and population."""
        for window in _windows(rows):
            angles = turning_angles(window.x)
            known: dict[bytes, float] = {}  # populations often have the same positions
            for number, cells in enumerate(POPULATIONS.values()):
                kept = torch.isin(window.cell, torch.tensor(cells))
                key = kept.numpy().tobytes()
                if key not in known:
                    known[key] = matrix_entropy(window.x[kept])
                self._add("entropy", number, window.group, known[key])
                inside = angles[kept[:-2] & kept[1:-1] & kept[2:]]
                self._add("curvature", number, window.group, float(inside.nanmean()))

    def _add(self, name: str, population: int, group: int, value: float) -> None:
        if np.isfinite(value):
            getattr(self, f"{name}_n")[population, group] += 1
            getattr(self, name)[population, group] += value

    def merge(self, other: Self) -> None:
        """Add the sums."""
        for name in FIELDS:
            getattr(self, name).add_(getattr(other, name))

    def state(self) -> State:
        """Return the four sums by population and group."""
        return {name: getattr(self, name) for name in FIELDS}

    @classmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the size of the four sums."""
        return 4 * 8 * len(POPULATIONS) * GROUPS

    def load(self, state: State) -> None:
        """Restore the sums."""
        for name in FIELDS:
            setattr(self, name, state[name])


class _Window(NamedTuple):
    x: Tensor  # (positions, dim) float64, in the order of the text
    cell: Tensor  # (positions,)
    group: int


def _windows(rows: Rows) -> Iterator[_Window]:
    """Yield the windows of a batch, whose rows are sorted by cell and unit."""
    places = rows.places
    if places.position is None or not len(places):
        return
    cell = torch.empty(len(places), dtype=torch.int64)
    for number, part in rows.cells:
        cell[part] = number
    window, position = places.window.numpy(), places.position.numpy()
    order = np.lexsort((position, window))
    starts = np.flatnonzero(np.diff(window[order])) + 1
    for chosen in map(torch.from_numpy, np.split(order, starts)):
        yield _Window(rows.x[chosen].double(), cell[chosen], int(places.group[chosen[0]]))
