"""The finished tables of a survey or a series as the report reads them, and their rows as plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.measures.columns import DERIVED, group_columns
from theodolite.measures.formula import formula_of_column
from theodolite.studies.choice import default_population
from theodolite.studies.survey_data import describe_adapters, describe_units
from theodolite.text import POPULATION_LABELS, distinct_labels

SHARES = {column.name: column.parts for column in DERIVED if column.parts}
"""Shares of two stored columns: numerator and denominator."""

_COLUMNS = [column for columns in group_columns().values() for column in columns]
BOUNDED = {column.name for column in _COLUMNS if column.format == "share"}
"""Columns between 0 and 1, which are never drawn on a logarithmic axis."""

LIMITS = {column.name: column.bounds for column in _COLUMNS if column.bounds}
"""The limits of a column by its definition; a reported interval stays within them."""


def add_shares(layers: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one more column per share, undefined where the denominator is 0.

    >>> add_shares(pd.DataFrame({"m": [1.0, 0.0], "q": [4.0, 0.0]}))["m_of_q"].tolist()
    [0.25, nan]
    """
    shares = {}
    for share, (part, whole) in SHARES.items():
        if {part, whole} <= set(layers.columns):
            above, below = (pd.to_numeric(layers[name], errors="coerce").astype(float) for name in (part, whole))
            shares[share] = above / below.where(below > 0, np.nan)
    return layers.assign(**shares)


LAYER_COLUMNS = ("layer", "population")


@dataclass(frozen=True, eq=False)
class Tables:
    """One survey: its name, `survey.json` as a dict, and its tables.

    `layers` has a row per layer and population, `tokens` a row per layer, population and unit, `units` a row per
    unit. Any key of `facts`, any number and any column except `layer` and `population` may be missing. `scales`
    and `spectra` are tables of a survey, also `contexts`, `neighbours`, `groups` and `group_differences`;
    `projections` is that of theodolite.studies.projections. Each may be empty.
    """

    name: str
    facts: dict[str, Any]
    layers: pd.DataFrame
    tokens: pd.DataFrame
    units: pd.DataFrame
    scales: pd.DataFrame = field(default_factory=pd.DataFrame)
    spectra: pd.DataFrame = field(default_factory=pd.DataFrame)
    projections: pd.DataFrame = field(default_factory=pd.DataFrame)
    contexts: pd.DataFrame = field(default_factory=pd.DataFrame)
    neighbours: pd.DataFrame = field(default_factory=pd.DataFrame)
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    group_differences: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, source: Mapping[str, Any] | object) -> Tables:
        """Return the tables of `Tables`, or of a mapping or an object with the same keys or attributes."""
        if isinstance(source, cls):
            return source._checked()
        found = source if isinstance(source, Mapping) else _attributes(source)
        missing = [name for name in ("name", "facts", "layers", "tokens", "units") if name not in found]
        if missing:
            raise InputError(
                f"surveys: expected name, facts, layers, tokens and units; {type(source).__name__} lacks "
                f"{', '.join(missing)}. Pass theodolite.report.Tables(...), in a list."
            )
        return cls(**{each.name: found[each.name] for each in fields(cls) if each.name in found})._checked()

    def _checked(self) -> Tables:
        absent = [name for name in LAYER_COLUMNS if name not in self.layers.columns]
        if absent and len(self.layers):
            raise InputError(
                f"layers: expected the columns layer and population; {self.name!r} lacks {', '.join(absent)}. "
                "Pass the layers.parquet of a survey unchanged."
            )
        return replace(self, layers=add_shares(self.layers))


def _attributes(source: object) -> dict[str, Any]:
    names = [each.name for each in fields(Tables)]
    return {name: getattr(source, name) for name in names if hasattr(source, name)}


SERIES_COLUMNS = ("step", "layer", "population")


@dataclass(frozen=True, eq=False)
class Steps:
    """One series: its name, `series.json` as a dict, a row per step, layer and population, and attention.

    `attention` has a row per step, block and population; it may be empty. Any other column may be missing.
    `training` has a row per step with the loss and other numbers of the training; it may be empty.
    `batches` has rows as `table`, of the training's own batches; it may be empty.
    """

    name: str
    facts: dict[str, Any]
    table: pd.DataFrame
    attention: pd.DataFrame = field(default_factory=pd.DataFrame)
    training: pd.DataFrame = field(default_factory=pd.DataFrame)
    batches: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, source: Steps | Mapping[str, Any]) -> Steps:
        """Return a series of `Steps` or of a mapping with the same keys, after checking its columns."""
        if not isinstance(source, cls):
            given = dict(source)  # type: ignore[arg-type]
            lacking = [key for key in ("name", "facts", "table") if key not in given]
            if lacking:
                raise InputError(f"series: expected name, facts and table; missing: {', '.join(lacking)}.")
            source = cls(**given)
        absent = [name for name in SERIES_COLUMNS if name not in source.table.columns]
        if absent:
            raise InputError(
                f"series: expected the columns step, layer and population; {source.name!r} lacks "
                f"{', '.join(absent)}. Pass the series.parquet unchanged."
            )
        return source

    @property
    def tables(self) -> Tables:
        """The series as `Tables` with a column `step`, without units, and with the formulas of the columns."""
        known = formula_of_column()
        formulas = {str(column): known[column] for column in self.table.columns if column in known}
        nothing = pd.DataFrame()
        return Tables(self.name, {**self.facts, "formulas": {"layers": formulas}}, self.table, nothing, nothing)

    @property
    def steps(self) -> list[int]:
        """The steps, first to last."""
        return sorted(int(step) for step in self.table["step"].dropna().unique())


Row = dict[str, Any]

POPULATION_ORDER = tuple(POPULATION_LABELS)


def populations(tables: Tables) -> list[str]:
    """Return the populations of a survey: that of `default_population` first, then the known ones."""
    if "population" not in tables.layers.columns:
        return []
    present = {str(name) for name in tables.layers["population"].dropna().unique()}
    known = [name for name in POPULATION_ORDER if name in present] + sorted(present - set(POPULATION_ORDER))
    return sorted(known, key=lambda name: name != default_population([tables.facts]))


def all_rows(tables: Tables) -> list[Row]:
    """Return the rows of all positions, or of the first population if they were not measured."""
    known = populations(tables)
    return layer_rows(tables, "all" if "all" in known else known[0]) if known else []


def population_style(population: str, known: list[str]) -> int:
    """Return the number of the style of a population, which is the same on every page."""
    return (
        POPULATION_ORDER.index(population)
        if population in POPULATION_ORDER
        else len(POPULATION_ORDER) + known.index(population)
    )


def layer_rows(tables: Tables, population: str) -> list[Row]:
    """Return the rows of a population, from the first layer to the last."""
    if tables not in _read:
        _read[tables] = _by_population(tables)
    return list(_read[tables].get(population, ()))


# A page needs them a hundred times, and pandas takes milliseconds each time; finished tables do not change.
_read: WeakKeyDictionary[Tables, dict[str, list[Row]]] = WeakKeyDictionary()


def _by_population(tables: Tables) -> dict[str, list[Row]]:
    if "population" not in tables.layers.columns:
        return {}
    names = [str(name) for name in tables.layers.columns]
    columns = [tables.layers.iloc[:, at].tolist() for at in range(len(names))]
    found: dict[str, list[Row]] = {}
    for values in zip(*columns, strict=True):
        row = dict(zip(names, values, strict=True))
        if not math.isnan(number(row, "layer")):
            found.setdefault(str(row["population"]), []).append(row)
    return {name: sorted(rows, key=lambda row: number(row, "layer")) for name, rows in found.items()}


def number(row: Mapping[Any, Any], column: str) -> float:
    """Return a cell as a float; NaN if it is missing or not a number."""
    try:
        return float(row[column])
    except (KeyError, TypeError, ValueError):
        return math.nan


def layer_name(row: Row) -> str:
    """Return the name of a layer, or its number if it has no name."""
    name = row.get("layer_name")
    return name if isinstance(name, str) and name else f"layer {number(row, 'layer'):g}"


def undefined_reasons(row: Row) -> dict[str, str]:
    """Return the reasons why columns of this row are undefined, by column.

    >>> undefined_reasons({"undefined": '{"tradeoff_r2": "V is 0 for every unit"}'})
    {'tradeoff_r2': 'V is 0 for every unit'}
    """
    reasons = row.get("undefined")
    if isinstance(reasons, str):
        try:
            reasons = json.loads(reasons)
        except ValueError:
            return {}
    return {str(key): str(value) for key, value in reasons.items()} if isinstance(reasons, dict) else {}


def select_defined(rows: list[Row], column: str) -> list[Row]:
    """Return the rows in which a column is a finite number."""
    return [row for row in rows if math.isfinite(number(row, column))]


def label_surveys(surveys: Sequence[Tables]) -> list[str]:
    """Return labels of surveys that all differ: the name, with adapters, units or a number if necessary."""
    facts = [tables.facts for tables in surveys]
    names = [tables.name for tables in surveys]
    if len(set(names)) < len(names):
        names = [f"{name}{describe_adapters(one)}" for name, one in zip(names, facts, strict=True)]
    return distinct_labels(names, describe_units(facts))
