"""The fold: every statistic of every layer, fed batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.statistics.directions import Directions
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.moments import Moments
from theodolite.statistics.norms import Norms
from theodolite.statistics.rows import Rows
from theodolite.statistics.sample import Sample
from theodolite.statistics.scatter import Scatter
from theodolite.statistics.statistic import State, Statistic

STATISTICS: tuple[type[Statistic], ...] = (Moments, Directions, Scatter, Norms, Sample, Groups)


class LayerFold:
    """The statistics of one layer, kept in one frame."""

    def __init__(self, frame: Frame, kinds: Sequence[type[Statistic]] = STATISTICS) -> None:
        self.frame = frame
        self.statistics = {kind.name: kind(frame) for kind in kinds}

    @torch.no_grad()
    def update(self, batch: Batch) -> None:
        """Take in one batch."""
        rows = Rows.of(batch, self.frame)
        for statistic in self.statistics.values():
            statistic.update(rows)

    def merge(self, other: LayerFold) -> None:
        """Take in what another fold has seen, moving its sums to this one's centre if they differ."""
        if not torch.equal(self.frame.centre, other.frame.centre):
            other = other.copy()
            other.recentre(self.frame.centre)
        for name, statistic in self.statistics.items():
            statistic.merge(other.statistics[name])

    def copy(self) -> LayerFold:
        """Return a fold of its own that holds the same."""
        twin = LayerFold(self.frame, [type(statistic) for statistic in self.statistics.values()])
        twin.load({name: tensor.clone() for name, tensor in self.state().items()})
        return twin

    def recentre(self, centre: Tensor) -> None:
        """Move every sum to another centre."""
        for statistic in self.statistics.values():
            statistic.recentre(centre)
        self.frame = replace(self.frame, centre=centre)
        for statistic in self.statistics.values():
            statistic.frame = self.frame

    def recode(self, codes: Tensor) -> None:
        """Give every unit another code: code k becomes codes[k]."""
        self.moments.recode(codes)
        self.sample.recode(codes)

    def holds(self, cell: int) -> bool:
        """Say whether any position, finite or not, fell into this cell."""
        return bool(self.moments.tables[cell].size) or bool(self.norms.nonfinite[cell])

    def state(self) -> State:
        """Return all sums by name."""
        return {
            f"{name}.{key}": value
            for name, statistic in self.statistics.items()
            for key, value in statistic.state().items()
        }

    def load(self, state: State) -> None:
        """Replace all sums."""
        for name, statistic in self.statistics.items():
            prefix = f"{name}."
            statistic.load({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})

    @property
    def moments(self) -> Moments:
        """The sums by unit."""
        return cast(Moments, self.statistics["moments"])

    @property
    def directions(self) -> Directions:
        """The sums of unit vectors."""
        return cast(Directions, self.statistics["directions"])

    @property
    def scatter(self) -> Scatter:
        """The second moments."""
        return cast(Scatter, self.statistics["scatter"])

    @property
    def norms(self) -> Norms:
        """The histogram of lengths."""
        return cast(Norms, self.statistics["norms"])

    @property
    def sample(self) -> Sample:
        """The vectors kept whole."""
        return cast(Sample, self.statistics["sample"])

    @property
    def groups(self) -> Groups:
        """The sums by document group."""
        return cast(Groups, self.statistics["groups"])
