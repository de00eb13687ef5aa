"""What a statistic is: an accumulator that can be updated, merged, saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from torch import Tensor

from theodolite.devices import DeviceTensor
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows

State = dict[str, Tensor]
StateInPlace = dict[str, Tensor | DeviceTensor]


class Statistic(ABC):
    """A mergeable accumulator over the rows of one layer.

    A new instance is the identity of `merge`. `restore` is the inverse of `state`, bit for bit. The tests find all
    subclasses; tests/laws has the laws that each must obey.
    """

    name: ClassVar[str]
    whole_windows: ClassVar[bool] = False  # whether `update` needs all rows of a window at once
    in_estimate: ClassVar[bool] = True  # whether its size is part of the memory estimate of a survey

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @abstractmethod
    def update(self, rows: Rows) -> None:
        """Add the rows. Keep no reference to them: they may be overwritten."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add everything that another instance with the same frame has seen."""

    @abstractmethod
    def state(self) -> State:
        """Return the sums as tensors by name."""

    def state_in_place(self) -> StateInPlace:
        """Return the same, without copying sums that are on a device."""
        return {**self.state()}

    @classmethod
    @abstractmethod
    def expected_bytes(cls, frame: Frame, units: int, cells: int) -> int:
        """Return the expected size of the state in bytes; a survey uses it to check its memory before it starts.

        units: the number of units, summed over cells. cells: the number of cells that are not empty.
        """

    @abstractmethod
    def load(self, state: State) -> None:
        """Replace all sums by a state; the tensors are not copied."""

    def recode(self, codes: Tensor) -> None:  # noqa: B027 - most statistics do nothing
        """Change the code of every unit from k to codes[k]. Does nothing by default."""

    def recentre(self, centre: Tensor) -> None:  # noqa: B027 - most statistics do nothing
        """Change sums about the frame's centre to sums about another centre. Does nothing by default."""

    @classmethod
    def restore(cls, frame: Frame, state: State) -> Self:
        """Return the statistic with this state."""
        statistic = cls(frame)
        statistic.load(state)
        return statistic
