"""What a statistic is: a small accumulator of sums that can be updated, merged, stored and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from torch import Tensor

from theodolite.statistics.away import Away
from theodolite.statistics.frame import Frame
from theodolite.statistics.rows import Rows

State = dict[str, Tensor]
Parts = dict[str, Tensor | Away]


class Statistic(ABC):
    """A mergeable accumulator over the rows of one layer.

    A new one is the identity of `merge`. `state` and `restore` are inverse to each other, bit for bit.
    Subclasses are found by the tests and by the fold through their `name`; tests/laws says what each must obey.
    """

    name: ClassVar[str]
    whole_windows: ClassVar[bool] = False  # whether it must see every row of a window at once

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @abstractmethod
    def update(self, rows: Rows) -> None:
        """Take in the rows; they may not be kept, only what is summed or copied from them."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in what another of the same frame has seen."""

    @abstractmethod
    def state(self) -> State:
        """Return the sums as tensors, by name."""

    def parts(self) -> Parts:
        """Return the same, sums that are away on a device left there."""
        return {**self.state()}

    @abstractmethod
    def load(self, state: State) -> None:
        """Replace what this one holds by a state; the tensors become its own."""

    def recode(self, codes: Tensor) -> None:  # noqa: B027 - doing nothing is right for most
        """Give every unit another code, code k becomes codes[k]; nothing to do where none are kept."""

    def recentre(self, centre: Tensor) -> None:  # noqa: B027 - doing nothing is right for most
        """Move sums taken about the frame's centre to another one; nothing to do where none are."""

    @classmethod
    def restore(cls, frame: Frame, state: State) -> Self:
        """Return the statistic that had this state."""
        statistic = cls(frame)
        statistic.load(state)
        return statistic
