"""Adding states: the sums of documents that were folded apart become one state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from theodolite.sources.units import Units
from theodolite.statistics.fold import LayerFold
from theodolite.surveys.folder import is_unseen
from theodolite.surveys.state import SavedState, ShardKey, State


def add(
    state: State,
    fold_of: Callable[[int], LayerFold],
    units: Units,
    shards: Iterable[ShardKey],
    positions: int,
) -> None:
    """Take another state's sums into this one, a layer at a time; what `fold_of` gives is used up."""
    codes = _codes(state.units, units)
    moved = None if codes == list(range(len(codes))) else torch.tensor(codes, dtype=torch.int64)
    for index, fold in state.folds.items():
        theirs = fold_of(index)
        if moved is not None:
            theirs.recode(moved)
        fold.merge(theirs)
    state.shards += shards
    state.positions += positions


def add_saved(state: State, saved: SavedState) -> None:
    """Take in a state of the same frames from disk. Memory: one layer of it."""
    units = Units(state.units.kind, list(saved.units)) if state.units.open else state.units
    add(
        state,
        lambda index: saved.fold(index, state.folds[index].frame),
        units,
        saved.shards,
        saved.positions,
    )


def _codes(units: Units, others: Units) -> list[int]:
    """Translate codes: words by their key; a closed vocabulary has the same codes everywhere."""
    if units.open or units.kind == "group":
        return [-1 if is_unseen(unit) else units.add(unit) for unit in others.known]
    if others is not units:
        for code, unit in enumerate(others.known):
            if code >= len(units):
                units.add(unit)
            elif is_unseen(units.known[code]):
                units.replace(code, unit)
    return list(range(len(others)))
