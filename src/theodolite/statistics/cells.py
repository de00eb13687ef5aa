"""Cells: the four disjoint kinds of position, whose sums are added to those of the populations."""

from __future__ import annotations

from collections.abc import Iterable

CELLS = ("ordinary", "first", "massive", "both")
"""The number of a position's cell: 1 if it is the first of its window, plus 2 if its norm is massive."""

POPULATIONS: dict[str, tuple[int, ...]] = {
    "all": (0, 1, 2, 3),
    "without-first": (0, 2),
    "without-massive": (0, 1),
}
"""The cells whose sums are added for each population. Adding is exact; subtracting would lose digits."""


def cells_to_separate(populations: Iterable[str]) -> tuple[bool, bool]:
    """Return whether first and whether massive positions need their own cells for these populations.

    >>> cells_to_separate(["all"]), cells_to_separate(["all", "without-massive"])
    ((False, False), (False, True))
    """
    chosen = set(populations)
    return "without-first" in chosen, "without-massive" in chosen
