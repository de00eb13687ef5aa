"""Residence: while a survey is folded, its sums live on the device that makes the states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import torch

from theodolite.batch import Places
from theodolite.errors import TheodoliteError
from theodolite.sources.source import Source
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.resident.desk import Desk
from theodolite.statistics.resident.fold import ResidentFold
from theodolite.surveys.state import State

TOGETHER = 8  # layers brought back at a time: one thread does not fill the way to a GPU


@contextmanager
def residing(state: State, device: str | None) -> Iterator[Callable[[Places], None] | None]:
    """Move the sums to the device, and back when all is folded; with None they stay where they are.

    Gives what is to be called with the places of every batch before its turn.

    A checkpoint meanwhile copies them: its file is the same wherever they live. At the end sums by unit, which are
    gigabytes, are away on the device until they are asked for: tables are measured where they lie.
    """
    if device is None:
        yield None
        return
    desk = moved(state, device)
    try:
        yield desk.lay_out
    except torch.OutOfMemoryError:
        raise TheodoliteError(
            f"The memory of {device} is full: give a smaller --batch-tokens (a survey under way keeps its own, so "
            "with --overwrite, or in another folder), or fewer --layers."
        ) from None
    else:
        hand_over(state, desk)
    finally:
        desk.close()


def hand_over(state: State, desk: Desk) -> None:
    """Make ordinary folds of those on the device; sums by unit are away there until they are asked for."""
    desk.settle()
    there = {index: fold for index, fold in state.folds.items() if isinstance(fold, ResidentFold)}
    with ThreadPoolExecutor(TOGETHER, "handing over") as pool:
        for index, fold in zip(there, pool.map(ResidentFold.handed_over, there.values()), strict=True):
            state.folds[index] = fold


def home(source: Source) -> str | None:
    """Return the device where the sums of a source's states are kept while they are taken; None: the processor."""
    return str(getattr(source, "device", "")) if getattr(source, "resident", False) else None


def moved(state: State, device: str) -> Desk:
    """Move the sums to a device. They are fed and saved there as here, and not read off.

    Layers too wide for matrices stay.
    """
    desk = Desk(device, overlap=True)
    for index, fold in state.folds.items():
        if not fold.wide:
            there = ResidentFold(fold.frame, desk)
            there.load(fold.state())
            state.folds[index] = cast(LayerFold, there)
    return desk
