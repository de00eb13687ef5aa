"""Residence: while a survey is folded, its sums live on the device that makes the states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from theodolite.statistics.fold import LayerFold
from theodolite.statistics.resident.fold import Desk, ResidentFold
from theodolite.surveys.state import State


@contextmanager
def residing(state: State, device: str | None) -> Iterator[None]:
    """Move the sums to the device, and back when all is folded; with None they stay where they are.

    A checkpoint meanwhile copies them: its file is the same wherever they live. Layers too wide for matrices stay.
    """
    if device is None:
        yield
        return
    desk = Desk(device)
    moved = {index: ResidentFold(fold.frame, desk) for index, fold in state.folds.items() if not fold.wide}
    for index, there in moved.items():
        there.load(state.folds[index].state())
        state.folds[index] = cast(LayerFold, there)  # it is fed and saved in the same way, and not read off
    yield
    for index, there in moved.items():
        state.folds[index] = there.brought_back()
