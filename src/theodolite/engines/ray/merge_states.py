"""Merge the states of workers in a tree; each merge needs the memory of one state and one layer of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.sources.units import Units
from theodolite.state.checkpoints import Checkpoints
from theodolite.state.state import SavedState, State, add_saved_state
from theodolite.state.worker_states import WorkerStates
from theodolite.statistics.frame import Frame
from theodolite.storage.location import Location

FAN_IN = 8  # states merged by one task
RunTasks = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Sequence[Any]]


def merge_states(
    out: Location,
    names: Sequence[str],
    frames: Mapping[int, Frame],
    units: Units,
    run_tasks: RunTasks,
    fan_in: int = FAN_IN,
) -> State:
    """Return the sum of the states in these folders; `run_tasks` runs all merges but the last on other machines.

    A run that is killed here leaves merged states beside those that they were merged from. Only one of them
    counts."""
    workers, remaining = WorkerStates(out), sorted(names)
    while len(remaining) > fan_in:
        groups = [remaining[start : start + fan_in] for start in range(0, len(remaining), fan_in)]
        single = [group[0] for group in groups if len(group) == 1]
        several = [group for group in groups if len(group) > 1]
        merged = [workers.create() for _ in several]
        run_tasks(
            merge_and_save,
            [(out, group, into, frames, units) for group, into in zip(several, merged, strict=True)],
        )
        for name in (name for group in several for name in group):
            workers.remove(name)
        remaining = sorted([*merged, *single])
    return add_states([workers.path(name) for name in remaining], frames, units)


def merge_and_save(
    out: Location, names: Sequence[str], into: str, frames: Mapping[int, Frame], units: Units
) -> None:
    """Save the sum of the states in several folders in another folder."""
    workers = WorkerStates(out)
    own_units = Units(units.kind, list(units.known))
    Checkpoints(workers.path(into)).save(add_states([workers.path(name) for name in names], frames, own_units))


def add_states(folders: Sequence[Location], frames: Mapping[int, Frame], units: Units) -> State:
    """Return the sum of the newest states in these folders."""

    def load_newest(folder: Location, load: Callable[[Path], Any]) -> Any:
        return Checkpoints(folder).latest(load, lambda text: None)

    state: State = load_newest(folders[0], lambda path: State.load(path, frames, units))
    for folder in folders[1:]:
        load_newest(folder, lambda path: add_saved_state(state, SavedState.open(path)))
    state.shards.sort()
    return state
