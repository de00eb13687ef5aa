"""Cells: the six disjoint kinds of position, whose sums are added to those of the populations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CELLS = ("ordinary", "first", "massive", "both", "sink", "first-sink")
"""The number of a position's cell: 1 if it is the first of its window, plus 2 if its norm is massive, or else plus
4 if it is massive at another layer of the survey."""

MASSIVE_CELLS, SINK_CELLS = (2, 3), (4, 5)

POPULATIONS: dict[str, tuple[int, ...]] = {
    "all": (0, 1, 2, 3, 4, 5),
    "without-first": (0, 2, 4),
    "without-massive": (0, 1, 4, 5),
    "without-sinks": (0, 1),
}
"""The cells whose sums are added for each population. Adding is exact; subtracting would lose digits."""


class Separated(NamedTuple):
    """The kinds of position that have their own cells."""

    first: bool
    massive: bool
    sinks: bool


def cells_to_separate(populations: Iterable[str]) -> Separated:
    """Return which positions need their own cells for these populations. Massive positions are sinks too.

    >>> cells_to_separate(["all"])
    Separated(first=False, massive=False, sinks=False)
    >>> cells_to_separate(["all", "without-sinks"])
    Separated(first=False, massive=True, sinks=True)
    """
    chosen = set(populations)
    sinks = "without-sinks" in chosen
    return Separated("without-first" in chosen, sinks or "without-massive" in chosen, sinks)
