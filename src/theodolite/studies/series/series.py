"""The series itself: which steps it has, with which weights, and the layers of all of them in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import DamagedError, InputError
from theodolite.studies.dynamics.names import SERIES
from theodolite.studies.series import files
from theodolite.studies.surveyed import Surveyed
from theodolite.surveys.run import versions
from theodolite.surveys.tables import LAYERS, WHOLE

TABLE = SERIES
WORDS = ("layer_name", "population", "undefined")
NEEDED = ("layer", "layer_name", "population")


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of the training: its number, what its checkpoint is called, and which weights it had."""

    step: int
    name: str
    sha256: str | None = None  # None where nobody hashed them, as while training
    survey: str | None = None  # the folder of its survey, from the series' own; None where there is none


@dataclass(eq=False)
class Series:
    """The layers of one model at several steps. `model` and `corpus` are what surveys say of theirs.

    >>> series = Series.of("tiny", "notes.txt")
    >>> layers = pd.DataFrame({"layer": [0], "layer_name": ["embeddings"], "population": ["all"], "twonn": [7.0]})
    >>> series.append(200, "checkpoint-200", "b2", layers)
    >>> series.append(100, "checkpoint-100", "a1", layers)
    >>> [step.step for step in series.steps], series.table["twonn"].tolist()
    ([100, 200], [7.0, 7.0])
    """

    model: dict[str, Any]
    corpus: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    units: str = "none"
    notes: dict[str, Any] = field(default_factory=dict)  # whatever else its maker tells, by name

    @classmethod
    def of(
        cls,
        model: str | Mapping[str, Any],
        corpus: str | Mapping[str, Any],
        *,
        units: str = "none",
        **settings: Any,
    ) -> Series:
        """Return a series without steps; a model or corpus is its name, or what survey.json says of it."""
        about = {"name": model} if isinstance(model, str) else dict(model)
        read = {"name": corpus} if isinstance(corpus, str) else dict(corpus)
        return cls(about, {"documents": 0, **read}, dict(settings), units=units)

    @property
    def table(self) -> pd.DataFrame:
        """One row per step, layer and population; no rows before the first step."""
        if TABLE in self.tables:
            return self.tables[TABLE]
        return _typed(pd.DataFrame(columns=list(NEEDED)), 0).head(0)

    @property
    def populations(self) -> list[str]:
        """The populations that every step tells."""
        return list(dict.fromkeys(self.table["population"]))

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Layers by number, as survey.json lists them."""
        first = self.table.drop_duplicates("layer").sort_values("layer")
        pairs = zip(first["layer"], first["layer_name"], strict=True)
        return [{"index": int(layer), "name": str(name)} for layer, name in pairs]

    def append(
        self, step: int, name: str, sha256: str | None, layers: pd.DataFrame, *, survey: str | None = None
    ) -> None:
        """Add a step, anywhere in their order: `layers` has a row per layer and population, as layers.parquet.

        Columns that are missing are null. A step that is there, weights that are there, and other layers or
        populations than those of the other steps are refused.
        """
        check_step(step, [(each.step, each.sha256) for each in self.steps], sha256)
        missing = [column for column in NEEDED if column not in layers]
        if missing or not len(layers):
            raise InputError(
                f"Step {step}: the table of layers {f'has no column {missing[0]!r}' if missing else 'is empty'}; "
                "wanted a row per layer and population."
            )
        self._check_rows(step, layers)
        added = _typed(layers, step)
        table = pd.concat([self.table, added]) if self.steps else added
        self.tables[TABLE] = table.sort_values("step", kind="stable", ignore_index=True)
        self.steps = sorted([*self.steps, Step(step, name, sha256, survey)], key=lambda each: each.step)

    def write(self, folder: str | Path) -> Path:
        """Write series.json and the tables, whole or not at all; return the folder."""
        path = Path(folder)
        files.write(path, self._facts() | {"versions": versions()}, {TABLE: self.table, **self.tables})
        return path

    @classmethod
    def read(cls, folder: str | Path) -> Series:
        """Open the folder of a series, checking every table."""
        facts, tables = files.read(Path(folder))
        if TABLE not in tables:
            raise DamagedError(f"{folder}: there is no {TABLE}.parquet in it.")
        steps = [Step(**each) for each in facts["steps"]]
        return cls(
            facts["model"], facts["corpus"], facts["settings"], steps, tables, facts["units"], facts["notes"]
        )

    def as_surveyed(self, folder: str | Path | None = None) -> Surveyed:
        """Return the series as exhibits see it: its facts and its tables, "series" and what else there is."""
        return Surveyed(
            {"series": True, **self._facts()}, dict(self.tables), None if folder is None else Path(folder)
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "corpus": self.corpus,
            "units": self.units,
            "populations": self.populations,
            "layers": self.layers,
            "settings": self.settings,
            "steps": [asdict(each) for each in self.steps],
            "notes": self.notes,
        }

    def _check_rows(self, step: int, layers: pd.DataFrame) -> None:
        """Refuse rows twice, and rows other than those of the first step."""
        rows = _rows(layers)
        if len(set(rows)) < len(rows):
            raise InputError(f"Step {step}: the table of layers tells a layer and population twice.")
        if not self.steps:
            return
        first = self.steps[0].step
        there = set(_rows(self.table[self.table["step"] == first]))
        odd = sorted(there ^ set(rows))
        if odd:
            layer, layer_name, population = odd[0]
            has, lacks = (first, step) if odd[0] in there else (step, first)
            raise InputError(
                f"Step {step} has other layers or populations than step {first}: layer {layer} ({layer_name}), "
                f"{population}, is in step {has} and not in step {lacks}. Wanted one model, surveyed alike."
            )


def check_step(step: int, known: list[tuple[int, str | None]], sha256: str | None) -> None:
    """Refuse a step that is no number of steps or is known, and weights that another step has."""
    if isinstance(step, bool) or int(step) != step or step < 0:
        raise InputError(f"Step {step!r}: wanted a whole number from 0 on.")
    for other, weights in known:
        if other == step:
            raise InputError(f"Step {step} is given twice; wanted every step once.")
        if sha256 is not None and weights == sha256:
            low, high = sorted((other, step))
            raise InputError(
                f"Steps {low} and {high} have the same weights (sha256 {sha256[:12]}…): one of them is not what "
                "its name says. Leave one out."
            )


def _rows(layers: pd.DataFrame) -> list[tuple[int, str, str]]:
    columns = (layers[column] for column in NEEDED)
    return [(int(a), str(b), str(c)) for a, b, c in zip(*columns, strict=True)]


def _typed(layers: pd.DataFrame, step: int) -> pd.DataFrame:
    """Return the rows with every column of the table of layers, and further ones after them, led by the step."""
    extra = [str(column) for column in layers.columns if column not in LAYERS and column != "step"]
    given = layers.reindex(columns=[*LAYERS, *extra]).reset_index(drop=True)
    typed = {column: _as(given[column], column, extra) for column in given.columns}
    return pd.DataFrame({"step": pd.Series([step] * len(given), dtype="int64"), **typed})


def _as(values: pd.Series[Any], column: str, extra: list[str]) -> pd.Series[Any]:
    if column in extra:
        return values
    if column in WORDS:
        return values.astype("object").where(values.notna(), None)
    return values.astype("Int64" if column in WHOLE else "float64")
