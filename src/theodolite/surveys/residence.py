"""Residence: while a survey is folded, its sums live on the device that makes the states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from theodolite.batch import Places
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.resident.fold import Desk, ResidentFold
from theodolite.surveys.state import State


@contextmanager
def residing(state: State, device: str | None) -> Iterator[Callable[[Places], None] | None]:
    """Move the sums to the device, and back when all is folded; with None they stay where they are.

    Gives what is to be called with the places of every batch before its turn.

    A checkpoint meanwhile copies them: its file is the same wherever they live. Layers too wide for matrices stay.
    """
    if device is None:
        yield None
        return
    desk = Desk(device)
    moved = {index: ResidentFold(fold.frame, desk) for index, fold in state.folds.items() if not fold.wide}
    for index, there in moved.items():
        there.load(state.folds[index].state())
        state.folds[index] = cast(LayerFold, there)  # it is fed and saved in the same way, and not read off
    yield desk.lay_out
    for index, there in moved.items():
        state.folds[index] = there.brought_back()
