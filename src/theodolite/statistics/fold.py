"""The fold of a layer: all of its statistics, updated batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.statistics.attention import Attention
from theodolite.statistics.cells import CELLS
from theodolite.statistics.clusters import Clusters
from theodolite.statistics.contextuality import Contextuality
from theodolite.statistics.directions import Directions
from theodolite.statistics.field_groups import FieldGroups
from theodolite.statistics.frame import Frame
from theodolite.statistics.groups import Groups
from theodolite.statistics.moments import Moments
from theodolite.statistics.norms import Norms
from theodolite.statistics.occurrences import Occurrences
from theodolite.statistics.rare_units import RareUnits
from theodolite.statistics.rows import Rows, is_massive, row_norms
from theodolite.statistics.sample import Sample
from theodolite.statistics.scatter import Scatter
from theodolite.statistics.sentences import Sentences
from theodolite.statistics.sequences import Sequences
from theodolite.statistics.sinks import HeldBatch
from theodolite.statistics.statistic import State, StateInPlace, Statistic
from theodolite.statistics.unit_groups import FrequentUnits, UnitGroups

Kinds = tuple[type[Statistic], ...]
STATISTICS: Kinds = (Moments, Directions, Scatter, Norms, Sample, Groups, UnitGroups, FrequentUnits)
CONTEXTUAL: Kinds = (Contextuality, Sentences, Occurrences, Clusters)
"""Added if the frame requires them; they double the memory for unit tables."""
SCORED: Kinds = (Sequences,)
"""Added if the frame requires them; an eigenproblem per window makes them slow."""
RARE: Kinds = (RareUnits,)
"""Added if not all units have a vector."""
BY_FIELD: Kinds = (FieldGroups,)
"""Added if documents are grouped by a field of the corpus."""
ATTENTION: Kinds = (Attention,)
"""Added if the attention of a block is measured."""
WIDE: Kinds = (Moments, Directions, Norms, Sample)
"""For vectors too wide for a (dim, dim) matrix or 20 groups of sums, such as complete feature maps of an image."""
MAX_MATRIX_DIM = 8192
WIDE_SAMPLE_BYTES = 2**28
"""The largest sample of such vectors, in bytes per cell."""


def max_sample_size(dim: int) -> int:
    """Return the largest sample size for vectors of this width.

    >>> max_sample_size(768) > 10**9, max_sample_size(10_000), max_sample_size(802_816)
    (True, 2048, 83)
    """
    return min(WIDE_SAMPLE_BYTES // (4 * dim), 2048) if dim > MAX_MATRIX_DIM else 2**31


def statistics_for(frame: Frame) -> Kinds:
    """Return the statistics of a layer with this frame."""
    attention = ATTENTION * (frame.attention_heads > 0)
    if frame.dim > MAX_MATRIX_DIM:
        return WIDE + attention
    optional = CONTEXTUAL * frame.contextuality + SCORED * frame.layer_scores + RARE * (frame.kept is not None)
    return STATISTICS + optional + BY_FIELD * (frame.by_groups > 0) + attention


def expected_bytes(frame: Frame, units: int, cells: int) -> int:
    """Return the expected size of a layer's statistics that are part of the memory estimate."""
    return sum(kind.expected_bytes(frame, units, cells) for kind in statistics_for(frame) if kind.in_estimate)


def _complete(part: Tensor, empty: Tensor | None) -> Tensor:
    """Return a sum by cell or population with as many rows as an empty one; a table by unit has no empty one."""
    missing = 0 if empty is None or not part.dim() else len(empty) - len(part)
    return torch.cat([part, empty[-missing:]]) if empty is not None and missing > 0 else part


class LayerFold:
    """The statistics of one layer, which share a frame."""

    def __init__(self, frame: Frame, kinds: Sequence[type[Statistic]] | None = None) -> None:
        self.frame = frame
        self.statistics = {kind.name: kind(frame) for kind in kinds or statistics_for(frame)}

    @torch.no_grad()
    def update(self, batch: Batch, *, norms: Tensor | None = None, sinks: Tensor | None = None) -> None:
        """Add one batch; `sinks` are its positions that are massive at any layer. (positions,) each"""
        rows = Rows.of(batch, self.frame, norms, sinks)
        for statistic in self.statistics.values():
            statistic.update(rows)

    def catch_up(self, batch: Batch | None = None) -> None:
        """Do nothing: on the CPU nothing is deferred."""

    @torch.no_grad()
    def hold(self, batch: Batch) -> HeldBatch:
        """Return a batch to be added when its sinks are known. The states are copied: they may be overwritten."""
        states = batch.taken().detach().cpu()
        if states.data_ptr() == batch.states.data_ptr():
            states = states.clone()
        norms = row_norms(states if states.dtype == torch.float64 else states.float())
        held = Batch(batch.layer, states, batch.places, attention=batch.attention)
        return HeldBatch(
            batch.places,
            is_massive(norms, self.frame),
            lambda sinks: self.update(held, norms=norms, sinks=sinks.cpu()),
            marks_sinks=self.frame.marks_sinks,
        )

    def merge(self, other: LayerFold) -> None:
        """Add everything that another fold has seen; its sums are moved to this centre if the centres differ."""
        if not torch.equal(self.frame.centre, other.frame.centre):
            other = other.copy()
            other.recentre(self.frame.centre)
        for name, statistic in self.statistics.items():
            statistic.merge(other.statistics[name])

    def copy(self) -> LayerFold:
        """Return an independent copy."""
        copy = LayerFold(self.frame, [type(statistic) for statistic in self.statistics.values()])
        copy.load({name: tensor.clone() for name, tensor in self.state().items()})
        return copy

    def recentre(self, centre: Tensor) -> None:
        """Change all sums to another centre."""
        for statistic in self.statistics.values():
            statistic.recentre(centre)
        self.frame = replace(self.frame, centre=centre)
        for statistic in self.statistics.values():
            statistic.frame = self.frame

    def regroup(self, codes: Tensor, groups: int, matrices: int, rows: int) -> None:
        """Change the groups of the field: group k becomes codes[k] of this many groups. (groups,)"""
        self.frame = replace(self.frame, by_groups=groups, by_matrices=matrices, by_rows=rows)
        for statistic in self.statistics.values():
            statistic.frame = self.frame
        if self.field_groups is not None:
            self.field_groups.regroup(self.frame, codes)

    def recode(self, codes: Tensor) -> None:
        """Change the code of every unit from k to codes[k]."""
        for statistic in self.statistics.values():
            statistic.recode(codes)

    def holds(self, cell: int) -> bool:
        """Return whether this cell has any position, finite or not."""
        rare = self.rare_units is not None and bool(self.rare_units.tables[cell].size)
        return rare or bool(self.moments.tables[cell].size) or bool(self.norms.nonfinite[cell])

    @property
    def is_empty(self) -> bool:
        """Whether no position was added."""
        return not any(map(self.holds, range(len(CELLS))))

    def state(self) -> State:
        """Return all sums by name."""
        return {
            f"{name}.{key}": value
            for name, statistic in self.statistics.items()
            for key, value in statistic.state().items()
        }

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying sums that are on a device."""
        return {
            f"{name}.{key}": value
            for name, statistic in self.statistics.items()
            for key, value in statistic.state_in_place().items()
        }

    @property
    def nbytes(self) -> int:
        """The size of the state, without copying it from a device."""
        return sum(part.nbytes for part in self.state_in_place().values())

    def load(self, state: State) -> None:
        """Replace all sums; those of older surveys have fewer cells and populations, and the others stay empty."""
        for name, statistic in self.statistics.items():
            prefix, empty = f"{name}.", statistic.state()
            parts = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            statistic.load({key: _complete(part, empty.get(key)) for key, part in parts.items()})

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
        """The histogram of norms."""
        return cast(Norms, self.statistics["norms"])

    @property
    def sample(self) -> Sample:
        """The sample of vectors."""
        return cast(Sample, self.statistics["sample"])

    @property
    def groups(self) -> Groups:
        """The sums by document group."""
        return cast(Groups, self.statistics["groups"])

    @property
    def unit_groups(self) -> UnitGroups:
        """The occurrences by unit and document group."""
        return cast(UnitGroups, self.statistics["unit_groups"])

    @property
    def frequent_units(self) -> FrequentUnits:
        """The sums of frequent units by document group."""
        return cast(FrequentUnits, self.statistics["frequent_units"])

    @property
    def rare_units(self) -> RareUnits | None:
        """The sums of the units without a vector, if there may be any."""
        return cast("RareUnits | None", self.statistics.get("rare_units"))

    @property
    def field_groups(self) -> FieldGroups | None:
        """The sums by group of a field of the corpus, if one is given."""
        return cast("FieldGroups | None", self.statistics.get("field_groups"))

    @property
    def contextuality(self) -> Contextuality | None:
        """The sums of unit vectors by unit, if the frame requires them."""
        return cast("Contextuality | None", self.statistics.get("contextuality"))

    @property
    def sentences(self) -> Sentences | None:
        """The similarity within windows, if the frame requires it."""
        return cast("Sentences | None", self.statistics.get("sentences"))

    @property
    def sequences(self) -> Sequences | None:
        """The entropy and the curvature of windows, if the frame requires them."""
        return cast("Sequences | None", self.statistics.get("sequences"))

    @property
    def occurrences(self) -> Occurrences | None:
        """Sampled vectors of sampled units, if the frame requires them."""
        return cast("Occurrences | None", self.statistics.get("occurrences"))

    @property
    def clusters(self) -> Clusters | None:
        """The occurrences of each unit by window, if the frame requires them."""
        return cast("Clusters | None", self.statistics.get("clusters"))

    @property
    def attention(self) -> Attention | None:
        """The sums over the attention of the block, if it is measured."""
        return cast("Attention | None", self.statistics.get("attention"))

    @property
    def wide(self) -> bool:
        """Whether the vectors are too wide for matrices and groups."""
        return "scatter" not in self.statistics
