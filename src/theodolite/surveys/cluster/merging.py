"""Merging what workers saved: a tree, eight wide, in memory for one state and one layer of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.sources.units import Units
from theodolite.statistics.frame import Frame
from theodolite.surveys.adding import add_saved
from theodolite.surveys.checkpoints import Checkpoints
from theodolite.surveys.partials import Partials
from theodolite.surveys.state import SavedState, State
from theodolite.surveys.storage import Place

WIDE = 8
Spread = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Sequence[Any]]


def merged(
    out: Place, names: Sequence[str], frames: Mapping[int, Frame], units: Units, spread: Spread, wide: int = WIDE
) -> State:
    """Return the sum of the states in these folders; all but the last step are made on other machines by `spread`.

    A run killed on the way leaves the merged beside what it was merged from, of which only one will count.
    """
    partials, rest = Partials(out), sorted(names)
    while len(rest) > wide:
        groups = [rest[start : start + wide] for start in range(0, len(rest), wide)]
        alone = [group[0] for group in groups if len(group) == 1]
        joined = [group for group in groups if len(group) > 1]
        made = [partials.fresh() for _ in joined]
        spread(merge_into, [(out, group, into, frames, units) for group, into in zip(joined, made, strict=True)])
        for name in (name for group in joined for name in group):
            partials.remove(name)
        rest = sorted([*made, *alone])
    return total([partials.path(name) for name in rest], frames, units)


def merge_into(out: Place, names: Sequence[str], into: str, frames: Mapping[int, Frame], units: Units) -> None:
    """Save the sum of some folders' states in another."""
    partials = Partials(out)
    fresh = Units(units.kind, list(units.known))
    Checkpoints(partials.path(into)).save(total([partials.path(name) for name in names], frames, fresh))


def total(folders: Sequence[Place], frames: Mapping[int, Frame], units: Units) -> State:
    """Return the sum of the newest states in these folders."""

    def newest(folder: Place, load: Callable[[Path], Any]) -> Any:
        return Checkpoints(folder).latest(load, lambda text: None)

    state: State = newest(folders[0], lambda path: State.load(path, frames, units))
    for folder in folders[1:]:
        newest(folder, lambda path: add_saved(state, SavedState.open(path)))
    state.shards.sort()
    return state
