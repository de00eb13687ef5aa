"""Write measurements as a series on disk, after every measurement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError
from theodolite.storage.location import list_output_folder
from theodolite.studies.series import Series, is_series
from theodolite.studies.series.series import ATTENTION, ATTENTION_ROWS, BATCHES, BLOCKS, SERIES, TRAINING, Step

COLLAPSE = "collapse"  # the note with the collapses reported so far
ALARMS = "alarms"  # the note with the other alarms


class SeriesWriter:
    """A series that grows while a model trains. Without a folder it is only kept in memory."""

    def __init__(self, folder: str | Path | None, *, overwrite: bool = False) -> None:
        self.folder = None if folder is None else Path(folder)
        self.overwrite = overwrite
        self.series: Series | None = None
        self._training: dict[int, dict[str, Any]] = {}  # numbers of steps that are not written yet

    def check(self) -> None:
        """Reject a folder that is in use, before anything is measured."""
        if self.folder is None:
            return
        names = list_output_folder(self.folder, "out: ")
        if names and not is_series(self.folder):
            raise InputError(
                f"out: {self.folder} holds {', '.join(names[:3])} and no series; give another folder."
            )
        if names and not self.overwrite:
            raise InputError(
                f"out: {self.folder} already holds a series; give another folder, overwrite=True to replace it, "
                "or resume=True to continue it."
            )

    def resume(self) -> Series | None:
        """Load the series in the folder, if there is one, and return it."""
        if self.folder is not None and is_series(self.folder):
            self.series = Series.read(self.folder)
        return self.series

    def start(self, model: Mapping[str, Any], corpus: Mapping[str, Any], units: str, **settings: Any) -> None:
        """Start a series, unless one was resumed; reject one with another probe set or other settings."""
        if self.series is None:
            self.series = Series.of(model, corpus, units=units, **settings)
            return
        for what, before, now in (
            ("another probe set", self.series.corpus.get("sha256"), corpus["sha256"]),
            ("other settings", self.series.settings, settings),
        ):
            if before != now:
                raise InputError(
                    f"out: the series in {self.folder} was measured with {what} ({before}, now {now}); "
                    "give another folder."
                )

    @property
    def steps(self) -> list[Step]:
        """The steps so far, in order."""
        return [] if self.series is None else self.series.steps

    def updates_at(self, step: int) -> dict[str, float]:
        """Return the update of each block at a step."""
        table = None if self.series is None else self.series.tables.get(BLOCKS)
        if table is None:
            return {}
        rows = table[table["step"] == step]
        return dict(zip(rows["layer_name"], rows["update"], strict=True))

    @property
    def unwritten(self) -> bool:
        """Whether numbers of the training were recorded since the series was written."""
        return bool(self._training)

    def record(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Keep numbers of the training, such as its loss, until the series is written."""
        if numbers:
            self._training.setdefault(step, {}).update(numbers)

    def remove_from(self, step: int) -> list[int]:
        """Remove this step and later ones with their notes; return their numbers.

        They come from before the run went back to an earlier checkpoint. Of the training itself, this step stays.
        """
        removed = [each.step for each in self.steps if each.step >= step]
        if self.series is not None:
            series = self.series
            series.steps = [each for each in series.steps if each.step < step]
            for name in {SERIES, BLOCKS, TRAINING, BATCHES, ATTENTION, ATTENTION_ROWS} & series.tables.keys():
                table = series.tables[name]
                kept = table["step"] <= step if name in (TRAINING, BATCHES) else table["step"] < step
                series.tables[name] = table[kept].reset_index(drop=True)
            for name in {COLLAPSE, ALARMS} & series.notes.keys():
                series.notes[name] = [note for note in series.notes[name] if _step_of(note) < step]
        return removed

    def add(self, step: int, sha256: str | None, layers: pd.DataFrame, updates: Mapping[str, float]) -> int | None:
        """Add a measurement; return a step with the same weights, if any."""
        assert self.series is not None
        series = self.series
        same = [each.step for each in series.steps if sha256 is not None and each.sha256 == sha256]
        series.append(step, f"step {step}", None if same else sha256, layers)
        if updates:
            rows = pd.DataFrame({"step": step, "layer_name": list(updates), "update": list(updates.values())})
            self._append(BLOCKS, rows)
        return same[0] if same else None

    def add_tables(self, step: int, tables: Mapping[str, pd.DataFrame]) -> None:
        """Add further tables of a step."""
        for name, table in tables.items():
            self._append(name, table.assign(step=step)[["step", *table.columns]])

    def tables_at(self, step: int) -> dict[str, pd.DataFrame]:
        """Return the further tables of a step."""
        tables = {} if self.series is None else self.series.tables
        return {
            name: tables[name][tables[name]["step"] == step]
            for name in (ATTENTION, ATTENTION_ROWS)
            if name in tables
        }

    def add_notes(self, *, collapses: list[str], alarms: list[str]) -> None:
        """Add the sentences of alarms."""
        assert self.series is not None
        notes = self.series.notes
        notes[COLLAPSE] = [*notes.get(COLLAPSE, []), *collapses]
        if alarms or ALARMS in notes:
            notes[ALARMS] = [*notes.get(ALARMS, []), *alarms]

    def write(self) -> None:
        """Write the series, with the numbers of the training up to now."""
        assert self.series is not None
        if self._training:
            rows = [
                {"step": step} | {name: _number(value) for name, value in numbers.items()}
                for step, numbers in sorted(self._training.items())
            ]
            self._training = {}
            table = pd.DataFrame(rows).set_index("step")
            if (before := self.series.tables.get(TRAINING)) is not None:  # more numbers of a step that was written
                table = table.combine_first(before.set_index("step"))
                table = table[list(dict.fromkeys([*before.columns.drop("step"), *table.columns]))]
            self.series.tables[TRAINING] = table.sort_index().reset_index()
        if self.folder is not None:
            self.series.write(self.folder)

    def _append(self, name: str, rows: pd.DataFrame) -> None:
        assert self.series is not None
        before = self.series.tables.get(name)
        if before is not None:
            before = before[~before["step"].isin(rows["step"])]
        table = rows if before is None or before.empty else pd.concat([before, rows])
        self.series.tables[name] = table.sort_values("step", kind="stable", ignore_index=True)


def _number(value: Any) -> float:
    """Return a number of the training as a float; a tensor is read only now, so that no step waits for it."""
    return float(value.detach() if hasattr(value, "detach") else value)


def _step_of(note: str) -> int:
    """Return the step that a note begins with.

    >>> _step_of("step 40: block 2 is collapsing")
    40
    """
    return int(note.removeprefix("step ").partition(":")[0])
