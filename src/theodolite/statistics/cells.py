"""Cells: the four disjoint kinds of position, which add up to the populations of the tables."""

from __future__ import annotations

from collections.abc import Iterable

CELLS = ("ordinary", "first", "massive", "both")
"""A position's cell is its number here: 1 if it is its window's first, plus 2 if its norm is massive."""

POPULATIONS: dict[str, tuple[int, ...]] = {
    "all": (0, 1, 2, 3),
    "without-first": (0, 2),
    "without-massive": (0, 1),
}
"""The cells whose sums make each population. Adding is exact; subtracting would cancel."""


def told_apart(populations: Iterable[str]) -> tuple[bool, bool]:
    """Say whether first and whether massive positions must be kept apart for these populations.

    >>> told_apart(["all"]), told_apart(["all", "without-massive"])
    ((False, False), (False, True))
    """
    wanted = set(populations)
    return "without-first" in wanted, "without-massive" in wanted
