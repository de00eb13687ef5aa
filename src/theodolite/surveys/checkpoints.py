"""Checkpoints: the state as it was a minute ago, and the one before in case that is damaged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from theodolite.errors import DamagedError
from theodolite.surveys.files import checksum, read_json, verify, write_json
from theodolite.surveys.state import SAMPLE, STATE, State

FOLDER = "checkpoints"
EVERY_SECONDS = 60.0
SHARE = 0.03  # of the run's time, at the most
KEPT = 2

Loaded = TypeVar("Loaded")


class Checkpoints:
    """Numbered folders beside the survey, each whole before it gets its name."""

    def __init__(self, folder: Path, every: float = EVERY_SECONDS) -> None:
        self.folder = folder / FOLDER
        self.every = every
        self.spent = 0.0
        self._cost = 0.0
        self._last = time.monotonic()

    def due(self) -> bool:
        """Say whether a minute has passed, or longer where writing would take more than 3% of the time."""
        return time.monotonic() - self._last >= max(self.every, self._cost / SHARE)

    def postpone(self) -> None:
        """Wait again as long: the last one could not be written."""
        self._last = time.monotonic()

    def save(self, state: State) -> None:
        """Write the state under the next number, then forget all but the last two."""
        began = time.monotonic()
        numbers = self._numbers()
        number = numbers[-1] + 1 if numbers else 1
        part = self.folder / f".{number:06d}.{os.getpid()}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            state.save(part)
            write_json(part / "checkpoint.json", {name: checksum(part / name) for name in (STATE, SAMPLE)})
            part.rename(self.folder / f"{number:06d}")
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        for old in [*numbers, number][:-KEPT]:
            shutil.rmtree(self.folder / f"{old:06d}", ignore_errors=True)
        self._last = time.monotonic()
        self._cost = self._last - began
        self.spent += self._cost

    def latest(self, load: Callable[[Path], Loaded], told: Callable[[str], None]) -> Loaded | None:
        """Return the newest checkpoint that is whole, telling of each that is not; None if there is none."""
        for part in self.folder.glob(".*.part"):  # what a killed run was writing, as large as the state
            shutil.rmtree(part, ignore_errors=True)
        for number in reversed(self._numbers()):
            folder = self.folder / f"{number:06d}"
            try:
                for name, expected in read_json(folder / "checkpoint.json").items():
                    verify(folder / name, expected)
                return load(folder)
            except DamagedError as error:
                told(f"{error} Going back to the checkpoint before.")
        return None

    def clear(self) -> None:
        """Remove all of them: the survey is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbers(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())
