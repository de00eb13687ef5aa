"""The series: its steps with the hash of their weights, and the layers of all steps in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.environment import versions
from theodolite.errors import DamagedError, InputError
from theodolite.measures.columns import column_names, integer_columns
from theodolite.studies.choice import AUTO
from theodolite.studies.series import files
from theodolite.studies.survey_data import SurveyData
from theodolite.tables.display import Display, figures
from theodolite.text import is_stream_name, pluralize, survey_name

SERIES, ATTENTION, ATTENTION_ROWS = "series", "attention", "attention_rows"
"""Names of the tables of a series."""
BLOCKS, TRAINING, BATCHES = "blocks", "training", "batches"
"""Names of tables that only a training run writes: how much blocks change their input; loss and learning rate; the
layers over the training batches since the step before."""
TEXT_COLUMNS = ("layer_name", "population", "undefined")
KEY_COLUMNS = ("layer", "layer_name", "population")


@dataclass(frozen=True, slots=True)
class Step:
    """One training step: its number, the name of its checkpoint, and the hash of its weights."""

    step: int
    name: str
    sha256: str | None = None  # None if they were not hashed, as during training
    survey: str | None = None  # folder of its survey, relative to the folder of the series; None without one


@dataclass(eq=False, repr=False)
class Series(Display):
    """The layers of one model at several steps. `model` and `corpus` have the keys that survey.json has for them.

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
    notes: dict[str, Any] = field(default_factory=dict)  # further facts by name

    @classmethod
    def of(
        cls,
        model: str | Mapping[str, Any],
        corpus: str | Mapping[str, Any],
        *,
        units: str = "none",
        **settings: Any,
    ) -> Series:
        """Return a series without steps; model and corpus are names, or dicts as in survey.json."""
        about = {"name": model} if isinstance(model, str) else dict(model)
        read = {"name": corpus} if isinstance(corpus, str) else dict(corpus)
        return cls(about, {"documents": 0, **read}, dict(settings), units=units)

    @property
    def table(self) -> pd.DataFrame:
        """One row per step, layer and population; no rows before the first step."""
        if SERIES in self.tables:
            return self.tables[SERIES]
        return _set_types(pd.DataFrame(columns=list(KEY_COLUMNS)), 0).head(0)

    @property
    def populations(self) -> list[str]:
        """The populations of every step."""
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
        """Add a step, in any order; `layers` has one row per layer and population, as layers.parquet.

        Missing columns become null. Raises InputError if the step or its weights are already in the series, or if
        its layers or populations differ from those of the other steps.
        """
        check_step(step, [(each.step, each.sha256) for each in self.steps], sha256)
        missing = [column for column in KEY_COLUMNS if column not in layers]
        if missing or not len(layers):
            raise InputError(
                f"Step {step}: the table of layers {f'has no column {missing[0]!r}' if missing else 'is empty'}; "
                "expected one row per layer and population."
            )
        self._check_rows(step, layers)
        added = _set_types(layers, step)
        table = pd.concat([self.table, added]) if self.steps else added
        self.tables[SERIES] = table.sort_values("step", kind="stable", ignore_index=True)
        self.steps = sorted([*self.steps, Step(step, name, sha256, survey)], key=lambda each: each.step)

    def write(self, folder: str | Path) -> Path:
        """Write series.json and the tables, all or none; return the folder."""
        path = Path(folder)
        files.write(path, self._facts() | {"versions": versions()}, {SERIES: self.table, **self.tables})
        return path

    @classmethod
    def read(cls, folder: str | Path) -> Series:
        """Read the folder of a series, verifying the checksum of every table."""
        facts, tables = files.read(Path(folder))
        if SERIES not in tables:
            raise DamagedError(f"{folder}: {SERIES}.parquet is missing.")
        steps = [Step(**each) for each in facts["steps"]]
        return cls(
            facts["model"], facts["corpus"], facts["settings"], steps, tables, facts["units"], facts["notes"]
        )

    @property
    def name(self) -> str:
        """A short name: model and corpus."""
        return survey_name({"model": self.model, "corpus": self.corpus})

    def plot(self, *measures: str | Sequence[str], **options: Any) -> Any:
        """Return a figure of means over blocks by step, such as plot("mean_cosine"); options of `compare`."""
        columns = [name for given in measures for name in ([given] if isinstance(given, str) else given)]
        return figures().compare(self, columns, **options)

    def compare(self, *others: Any, **options: Any) -> Any:
        """Return a figure of this series and others by step; see `theodolite.compare`."""
        return figures().compare([self, *others], **options)

    def summary(self, population: str = AUTO) -> pd.DataFrame:
        """Return means over blocks of the most important measures, one row per step."""
        return figures().tabulate_series(self, population)  # type: ignore[no-any-return]

    def _chart(self) -> Any:
        return self.plot(caption=False) if self.steps else None

    def __repr__(self) -> str:
        counts = f"{pluralize(len(self.steps), 'step')}, {pluralize(len(self.layers), 'layer')}"
        return f"Series({self.name!r}: {counts})"

    def as_survey_data(self, folder: str | Path | None = None) -> SurveyData:
        """Return the series as exhibits read it: its facts and tables, of the residual stream if it has one."""
        facts, tables = {"series": True, **self._facts()}, dict(self.tables)
        others = {layer["index"] for layer in self.layers if is_stream_name(layer["name"])}
        if others and len(others) < len(self.layers):
            for name in {SERIES, BATCHES} & tables.keys():
                tables[name] = tables[name][~tables[name]["layer"].isin(others)].reset_index(drop=True)
            facts["layers"] = [layer for layer in self.layers if layer["index"] not in others]
        return SurveyData(facts, tables, None if folder is None else Path(folder))

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
        """Reject duplicate rows, and rows that differ from those of the first step."""
        rows = _row_keys(layers)
        if len(set(rows)) < len(rows):
            raise InputError(f"Step {step}: the table of layers has a layer and population twice.")
        if not self.steps:
            return
        first = self.steps[0].step
        expected = set(_row_keys(self.table[self.table["step"] == first]))
        different = sorted(expected ^ set(rows))
        if different:
            layer, layer_name, population = different[0]
            has, lacks = (first, step) if different[0] in expected else (step, first)
            raise InputError(
                f"Step {step} has other layers or populations than step {first}: layer {layer} ({layer_name}), "
                f"{population}, is in step {has} and not in step {lacks}. "
                "A series requires one model, surveyed with the same options at every step."
            )


def check_step(step: int, known: list[tuple[int, str | None]], sha256: str | None) -> None:
    """Reject a step that is not a nonnegative integer or is already known, and weights of another step."""
    if isinstance(step, bool) or int(step) != step or step < 0:
        raise InputError(f"A step must be an integer of 0 or more (got {step!r}).")
    for other, weights in known:
        if other == step:
            raise InputError(f"Step {step} is given twice; give every step once.")
        if sha256 is not None and weights == sha256:
            low, high = sorted((other, step))
            raise InputError(
                f"Steps {low} and {high} have the same weights (sha256 {sha256[:12]}…), so one of them has the "
                "wrong name. Remove one."
            )


def _row_keys(layers: pd.DataFrame) -> list[tuple[int, str, str]]:
    columns = (layers[column] for column in KEY_COLUMNS)
    return [(int(a), str(b), str(c)) for a, b, c in zip(*columns, strict=True)]


def _set_types(layers: pd.DataFrame, step: int) -> pd.DataFrame:
    """Return the rows with the step, all columns of layers.parquet, and then any further columns."""
    extra = [str(column) for column in layers.columns if column not in column_names("layers") and column != "step"]
    given = layers.reindex(columns=[*column_names("layers"), *extra]).reset_index(drop=True)
    typed = {column: _convert_column(given[column], column, extra) for column in given.columns}
    return pd.DataFrame({"step": pd.Series([step] * len(given), dtype="int64"), **typed})


def _convert_column(values: pd.Series[Any], column: str, extra: list[str]) -> pd.Series[Any]:
    if column in extra:
        return values
    if column in TEXT_COLUMNS:
        return values.astype("object").where(values.notna(), None)
    return values.astype("Int64" if column in integer_columns("layers") else "float64")
