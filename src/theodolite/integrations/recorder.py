"""What is done with a measurement: judge it, add it to the series, warn, and name its numbers for loggers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.integrations.alarms import Alarm, AlarmDetector, Alarms, GeometryWarning
from theodolite.integrations.attention import LOGGED as SHARPNESS
from theodolite.integrations.attention import select_sharpness
from theodolite.integrations.collapse import Collapse, CollapseDetector, CollapseWarning, Thresholds
from theodolite.integrations.probe_set import ProbeSet
from theodolite.integrations.series_writer import SeriesWriter
from theodolite.integrations.user_warnings import warn_user
from theodolite.studies.number_export.metric_names import PREFIX, metric_name
from theodolite.studies.series import Series
from theodolite.studies.series.series import BATCHES


@dataclass(frozen=True, eq=False)
class Measurement:
    """One measurement of the whole probe set."""

    step: int
    layers: pd.DataFrame
    updates: Mapping[str, float]  # by block
    sha256: str | None
    attention: dict[str, pd.DataFrame] = field(default_factory=dict)  # tables by name
    batches: pd.DataFrame | None = None  # rows of the training batches since the last measurement


class Recorder:
    """The series of a run, with its alarms and with numbers of the training itself."""

    def __init__(
        self,
        out: str | Path | None,
        populations: Sequence[str],
        logged: Sequence[str],
        *,
        collapse: Thresholds | None,
        alarms: Alarms | None,
        overwrite: bool,
        resume: bool,
    ) -> None:
        self.populations, self.logged = tuple(populations), tuple(logged)
        self._collapse, self._alarms = collapse, alarms
        self._writer = SeriesWriter(out, overwrite=overwrite)
        self._resume = resume
        self._blocks = 0
        self._stored = False  # whether a measurement was stored by this process
        self._reset()
        if not resume:
            self._writer.check()

    @property
    def series(self) -> Series | None:
        """All measurements so far."""
        return self._writer.series

    def _reset(self) -> None:
        self.collapses: list[Collapse] = []
        self.alarms: list[Alarm] = []
        self._collapse_detector = None if self._collapse is None else CollapseDetector(self._collapse)
        self._alarm_detector = None if self._alarms is None else AlarmDetector(self._alarms)

    def start(self, step: int, model: Mapping[str, Any], probe_set: ProbeSet, *, dimension: bool) -> None:
        """Start the series, or continue the one in the folder."""
        if self._resume and self._writer.series is None:
            self._writer.resume()
            self._go_back(step)
        source = probe_set.source
        self._blocks = int(model.get("blocks", len(source.layers)))
        self._writer.start(
            model,
            probe_set.facts,
            source.units.kind,
            layers=[layer.index for layer in source.layers],
            populations=list(self.populations),
            **probe_set.settings,
            dimension=dimension,
        )

    def record(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Keep numbers of the training of a step. Tensors are read when the series is written."""
        self._writer.record(step, numbers)

    def finish(self) -> None:
        """Write numbers of the training that were recorded after the last measurement."""
        if self._writer.series is not None and self._writer.unwritten:
            self._writer.write()

    def store(self, measured: Measurement) -> dict[str, float]:
        """Check for alarms, write the series, and return the numbers to log."""
        step = measured.step
        if self._stored and step <= max((each.step for each in self._writer.steps), default=-1):
            removed = ", ".join(map(str, self._go_back(step)))
            warn_user(f"step {step} is measured after later steps, which are removed from the series: {removed}")
        sharpness = select_sharpness(measured.attention)
        collapses, alarms = self._judge(step, measured.layers, measured.updates, sharpness)
        same = self._writer.add(measured.step, measured.sha256, measured.layers, measured.updates)
        batches = pd.DataFrame() if measured.batches is None else measured.batches
        self._writer.add_tables(measured.step, measured.attention | ({BATCHES: batches} if len(batches) else {}))
        self._writer.add_notes(collapses=list(map(str, collapses)), alarms=list(map(str, alarms)))
        self._writer.write()
        rows = self._rows(measured.layers, self.populations[-1])
        if not self._stored:
            self._warn_of_undefined(rows)
        self._stored = True
        for collapse in collapses:
            warn_user(str(collapse), CollapseWarning)
        for alarm in alarms:
            warn_user(str(alarm), GeometryWarning)
        if same is not None:
            warn_user(f"step {step}: the weights equal those of step {same}")
        numbers = self._name_numbers(rows, self.logged) | self._name_numbers(sharpness, SHARPNESS)
        if len(batches):
            numbers |= self._name_numbers(self._rows(batches, self.populations[-1]), self.logged, f"{BATCHES}/")
        return numbers | self._count_alarms()

    def _judge(
        self, step: int, layers: pd.DataFrame, updates: Mapping[str, float], sharpness: pd.DataFrame
    ) -> tuple[list[Collapse], list[Alarm]]:
        """Return the new collapses, of the last population, and the new alarms, of the first."""
        collapses, alarms = [], []
        if self._collapse_detector is not None:
            collapses = self._collapse_detector.update(step, self._rows(layers, self.populations[-1]))
        if self._alarm_detector is not None:
            rows = self._rows(layers, self.populations[0])
            alarms = self._alarm_detector.update(step, rows, updates, sharpness)
        self.collapses += collapses
        self.alarms += alarms
        return collapses, alarms

    def _go_back(self, step: int) -> list[int]:
        """Remove this step and later ones, and judge by those that remain; return the removed steps.

        What the training itself did up to this step stays: its loss, and its batches.
        """
        removed = self._writer.remove_from(step)
        self._reset()
        if self.series is not None:
            for earlier in self.series.steps:
                at = earlier.step
                self._judge(
                    at,
                    self.series.table[self.series.table["step"] == at],
                    self._writer.updates_at(at),
                    select_sharpness(self._writer.tables_at(at)),
                )
        return removed

    @staticmethod
    def _rows(layers: pd.DataFrame, population: str) -> pd.DataFrame:
        return layers[layers["population"] == population]

    def _name_numbers(self, rows: pd.DataFrame, columns: Sequence[str], prefix: str = "") -> dict[str, float]:
        return {
            metric_name(f"{prefix}{row['layer_name']}", column, self._blocks): float(row[column])
            for row in rows.to_dict("records")
            for column in columns
            if not pd.isna(row.get(column))
        }

    def _count_alarms(self) -> dict[str, float]:
        numbers = {}
        if self._collapse_detector is not None:
            numbers[f"{PREFIX}/collapsed_layers"] = float(len(self._collapse_detector.collapsed))
        if self._alarm_detector is not None:
            numbers[f"{PREFIX}/alarms"] = float(len(self._alarm_detector.active))
        return numbers

    def _warn_of_undefined(self, rows: pd.DataFrame) -> None:
        """Warn of columns to log that are undefined in every layer."""
        for column in self.logged:
            if column not in rows or rows[column].isna().all():
                reasons = {json.loads(text or "{}").get(column) for text in rows["undefined"]} - {None}
                why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
                warn_user(f"logged: {column} is undefined in every layer{why} and is not logged")
