"""Turns: ways of doing one thing timed one after the other, round by round, so that all meet the same noise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Seconds = dict[str, list[float]]


def take_turns(ways: Mapping[str, Callable[[], object]], rounds: int, *, warm: bool = True) -> Seconds:
    """Time every way once a round; each goes first as often as the others. Warmed up once unless told."""
    for way in ways.values() if warm else ():
        way()
    seconds: Seconds = {name: [] for name in ways}
    for number in range(rounds):
        one_round(ways, number, seconds)
    return seconds


def one_round(ways: Mapping[str, Callable[[], object]], number: int, seconds: Seconds) -> None:
    """Time every way once, beginning with another one in every round, and add to the seconds."""
    names = list(ways)
    first = number % len(names)
    for name in names[first:] + names[:first]:
        began = time.perf_counter()
        ways[name]()
        seconds[name].append(time.perf_counter() - began)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median over rounds of ours over theirs: a round that others disturbed does not move it."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def middle(seconds: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(seconds)
