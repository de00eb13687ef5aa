"""Residence: while a survey is folded, its sums live on the device that makes the states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import torch

from theodolite.batch import Places
from theodolite.errors import TheodoliteError
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.resident.fold import Desk, ResidentFold
from theodolite.surveys.state import State

TOGETHER = 4  # layers brought back at a time: one thread does not fill the way to a GPU


@contextmanager
def residing(state: State, device: str | None) -> Iterator[Callable[[Places], None] | None]:
    """Move the sums to the device, and back when all is folded; with None they stay where they are.

    Gives what is to be called with the places of every batch before its turn.

    A checkpoint meanwhile copies them: its file is the same wherever they live. Layers too wide for matrices stay.
    """
    if device is None:
        yield None
        return
    desk = Desk(device, overlap=True)
    moved = {index: ResidentFold(fold.frame, desk) for index, fold in state.folds.items() if not fold.wide}
    for index, there in moved.items():
        there.load(state.folds[index].state())
        state.folds[index] = cast(LayerFold, there)  # it is fed and saved in the same way, and not read off
    try:
        yield desk.lay_out
    except torch.OutOfMemoryError:
        raise TheodoliteError(
            f"The memory of {device} is full: give a smaller --batch-tokens (a survey under way keeps its own, so "
            "with --overwrite, or in another folder), or fewer --layers."
        ) from None
    desk.settle()
    with ThreadPoolExecutor(TOGETHER) as pool:
        for index, fold in zip(moved, pool.map(ResidentFold.brought_back, moved.values()), strict=True):
            state.folds[index] = fold
