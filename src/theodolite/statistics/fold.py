"""The fold: every statistic of every layer, fed batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.statistics.contextuality import Contextuality
from theodolite.statistics.directions import Directions
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.moments import Moments
from theodolite.statistics.norms import Norms
from theodolite.statistics.occurrences import Occurrences
from theodolite.statistics.rows import Rows
from theodolite.statistics.sample import Sample
from theodolite.statistics.scatter import Scatter
from theodolite.statistics.sentences import Sentences
from theodolite.statistics.statistic import Parts, State, Statistic

Kinds = tuple[type[Statistic], ...]
STATISTICS: Kinds = (Moments, Directions, Scatter, Norms, Sample, Groups)
CONTEXTUAL: Kinds = (Contextuality, Sentences, Occurrences)
"""Kept besides where the frame says so: they double the table."""
WIDE: Kinds = (Moments, Directions, Norms, Sample)
"""Kept of vectors too wide for a matrix of dim x dim, or for 20 groups of sums: whole maps of a picture, say."""
WIDEST = 8192
WIDE_SAMPLE = 2**28
"""Bytes that the sample of such vectors may take in a cell."""


def most_sampled(dim: int) -> int:
    """Return how many vectors of this width a sample may hold.

    >>> most_sampled(768) > 10**9, most_sampled(10_000), most_sampled(802_816)
    (True, 2048, 83)
    """
    return min(WIDE_SAMPLE // (4 * dim), 2048) if dim > WIDEST else 2**31


def kinds_of(frame: Frame) -> Kinds:
    """Return the statistics that a layer of this frame keeps."""
    if frame.dim > WIDEST:
        return WIDE
    return STATISTICS + CONTEXTUAL if frame.contextuality else STATISTICS


class LayerFold:
    """The statistics of one layer, kept in one frame."""

    def __init__(self, frame: Frame, kinds: Sequence[type[Statistic]] | None = None) -> None:
        self.frame = frame
        self.statistics = {kind.name: kind(frame) for kind in kinds or kinds_of(frame)}

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
        for statistic in self.statistics.values():
            statistic.recode(codes)

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

    def parts(self) -> Parts:
        """Return the same, sums that are away on a device left there."""
        return {
            f"{name}.{key}": value
            for name, statistic in self.statistics.items()
            for key, value in statistic.parts().items()
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

    @property
    def contextuality(self) -> Contextuality | None:
        """The sums of unit vectors by unit, where they are kept."""
        return cast("Contextuality | None", self.statistics.get("contextuality"))

    @property
    def sentences(self) -> Sentences | None:
        """The similarity within windows, where it is kept."""
        return cast("Sentences | None", self.statistics.get("sentences"))

    @property
    def occurrences(self) -> Occurrences | None:
        """Some vectors of some units, where they are kept."""
        return cast("Occurrences | None", self.statistics.get("occurrences"))

    @property
    def wide(self) -> bool:
        """Say whether the vectors are too wide for matrices and groups."""
        return "scatter" not in self.statistics
