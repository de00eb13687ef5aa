"""Time several ways of doing the same thing alternately, round by round, so that all see the same noise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Seconds = dict[str, list[float]]


def time_alternately(ways: Mapping[str, Callable[[], object]], rounds: int, *, warm: bool = True) -> Seconds:
    """Time every way once per round, each first equally often. `warm` runs each once before."""
    for way in ways.values() if warm else ():
        way()
    seconds: Seconds = {name: [] for name in ways}
    for number in range(rounds):
        time_round(ways, number, seconds)
    return seconds


def time_round(ways: Mapping[str, Callable[[], object]], number: int, seconds: Seconds) -> None:
    """Time every way once, starting with a different one in each round, and append to `seconds`."""
    names = list(ways)
    first = number % len(names)
    for name in names[first:] + names[:first]:
        started = time.perf_counter()
        ways[name]()
        seconds[name].append(time.perf_counter() - started)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median over rounds of ours divided by theirs, which a disturbed round does not change."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
