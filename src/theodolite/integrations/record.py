"""The record: measurements as a series on disk, written after every one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.studies.series import Series, is_series
from theodolite.studies.series.series import TABLE


class Record:
    """A series that grows while someone trains; without a folder it is kept in memory alone."""

    def __init__(self, folder: str | Path | None, *, overwrite: bool = False) -> None:
        self.folder = None if folder is None else Path(folder)
        self.overwrite = overwrite
        self.series: Series | None = None

    def check(self) -> None:
        """Refuse a folder that holds something, before anything is measured."""
        if self.folder is None or not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise InputError(f"out: {self.folder} is a file; give the name of a folder.")
        held = sorted(each.name for each in self.folder.iterdir())
        if held and not is_series(self.folder):
            raise InputError(f"out: {self.folder} holds {', '.join(held[:3])} and no series; give another folder.")
        if held and not self.overwrite:
            raise InputError(
                f"out: {self.folder} holds a series already; give another folder, overwrite=True to replace it, "
                "or resume=True to go on with it."
            )

    def go_on(self) -> Series | None:
        """Take up the series that the folder holds, if it holds one, and return it."""
        if self.folder is not None and is_series(self.folder):
            self.series = Series.read(self.folder)
        return self.series

    def begin(self, model: Mapping[str, Any], corpus: Mapping[str, Any], units: str, **settings: Any) -> None:
        """Begin a series, unless one was taken up; refuse to go on with one that was measured otherwise."""
        if self.series is None:
            self.series = Series.of(model, corpus, units=units, **settings)
            return
        for what, there, here in (
            ("probe set", self.series.corpus.get("sha256"), corpus["sha256"]),
            ("settings", self.series.settings, settings),
        ):
            if there != here:
                raise InputError(
                    f"out: the series in {self.folder} was measured with another {what} ({there}, now {here}); "
                    "give another folder."
                )

    def add(self, step: int, sha256: str | None, layers: pd.DataFrame, notes: list[str]) -> int | None:
        """Add a measurement and write the series; return the step that has the same weights, if one has.

        Steps from this one on are of a run that was taken up again before them: this one replaces them.
        """
        assert self.series is not None
        series = self.series
        if any(each.step >= step for each in series.steps):
            series.steps = [each for each in series.steps if each.step < step]
            series.tables[TABLE] = series.table[series.table["step"] < step].reset_index(drop=True)
        same = [each.step for each in series.steps if sha256 is not None and each.sha256 == sha256]
        series.append(step, f"step {step}", None if same else sha256, layers)
        series.notes["collapse"] = notes
        if self.folder is not None:
            series.write(self.folder)
        return same[0] if same else None
