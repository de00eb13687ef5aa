"""The data of one series: every measure by step and layer, and its means over layers by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.escaping import make_visible
from theodolite.report.catalogue import MENU
from theodolite.report.payload.layers import list_layers
from theodolite.report.payload.pack import pack_floats, pack_short_floats
from theodolite.report.tables import Steps, layer_rows, populations, undefined_reasons
from theodolite.studies.series.averages import BLOCKS, average_attention, average_layers
from theodolite.studies.series.series import ATTENTION, SERIES
from theodolite.studies.survey_data import SurveyData

MENU_COLUMNS = [column for columns in MENU.values() for column in columns]
KEYS = ["step", "layer"]


def build_series_payload(series: Steps) -> dict[str, Any]:
    """Return steps, layers, populations, `profiles` of shape (steps, layers), and means by step."""
    layers = list_layers(series.tables)
    by_population = {
        name: _complete_rows(series.table, series.steps, layers, name) for name in populations(series.tables)
    }
    columns = [column for column in MENU_COLUMNS if column in series.table.columns]
    return {
        "name": make_visible(series.name),
        "steps": series.steps,
        "layers": layers,
        "populations": list(by_population),
        "profiles": {name: _pack_profiles(series, name, rows, columns) for name, rows in by_population.items()},
        "averages": {name: _pack_averages(rows, name, columns) for name, rows in by_population.items()},
        "batches": _pack_batches(series.batches, layers, list(by_population), columns),
        "attention": _pack_attention(series),
        "training": _pack_training(series.training),
    }


def _complete_rows(
    table: pd.DataFrame, steps: Sequence[int], layers: Sequence[dict[str, Any]], population: str
) -> pd.DataFrame:
    """Return the rows of a population with every step and every layer; missing values are null."""
    names = {layer["layer"]: layer["name"] for layer in layers}
    rows = table[table["population"] == population].drop_duplicates(KEYS)
    index = pd.MultiIndex.from_product([steps, list(names)], names=KEYS)
    rows = rows.set_index(KEYS).reindex(index).reset_index()
    return rows.assign(layer_name=rows["layer"].map(names), population=population)


def _pack_profiles(series: Steps, population: str, rows: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    packed = {}
    for column in [name for each in columns for name in (each, f"{each}_se") if name in rows.columns]:
        values = _numbers(rows[column])
        if np.isfinite(values).any():
            packed[column] = pack_short_floats(values)
    why: dict[str, str] = {}
    for row in layer_rows(series.tables, population):
        why |= {
            column: make_visible(reason) for column, reason in undefined_reasons(row).items() if column not in why
        }
    return {"columns": packed, "reasons": {column: why[column] for column in columns if column in why}}


def _pack_averages(rows: pd.DataFrame, population: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the mean over the layers that define a column at every step, and their number, by scope."""
    made = average_layers(SurveyData({}, {SERIES: rows}), [population], columns)
    return {str(scope): _pack_means(part, "layers") for scope, part in made.groupby("scope", sort=False)}


def _pack_batches(
    table: pd.DataFrame, layers: Sequence[dict[str, Any]], names: Sequence[str], columns: Sequence[str]
) -> dict[str, Any]:
    """Return steps, and means over blocks by population, of the training's own batches; {} if there are none."""
    if not {*KEYS, "population"} <= set(table.columns) or not len(table):
        return {}
    known = [column for column in columns if column in table.columns]
    steps = sorted({int(step) for step in table["step"]})
    averages = {}
    for name in names:
        means = _pack_averages(_complete_rows(table, steps, layers, name), name, known)
        averages[name] = {"training-batches": means.get(BLOCKS, {})}
    return {"steps": steps, "averages": averages}


POINTS = 2000
"""The largest number of steps of the loss on the page; more are averaged in equal groups."""


def _pack_training(table: pd.DataFrame) -> dict[str, Any]:
    """Return the steps and the numbers of the training, such as its loss; {} if there are none."""
    if "step" not in table.columns or not len(table):
        return {}
    rows = table.apply(pd.to_numeric, errors="coerce").sort_values("step")
    if len(rows) > POINTS:
        group = np.arange(len(rows)) * POINTS // len(rows)
        rows = rows.groupby(group).mean()
    names = [str(name) for name in rows.columns if name != "step" and np.isfinite(_numbers(rows[name])).any()]
    return {
        "steps": [round(float(step)) for step in rows["step"]],
        "measures": {make_visible(name): pack_floats(_numbers(rows[name])) for name in names},
    }


def _pack_attention(series: Steps) -> dict[str, Any]:
    if not {"step", "population", "documents"} <= set(series.attention.columns):
        return {}
    survey = SurveyData({}, {ATTENTION: series.attention})
    known = [str(name) for name in series.attention["population"].dropna().unique()]
    made = {name: average_attention(survey, name, series.name) for name in known}
    return {
        name: {
            "steps": sorted(int(step) for step in rows["step"].unique()),
            "documents": int(rows["documents"].max()),
            "measures": _pack_means(rows, "blocks"),
        }
        for name, rows in made.items()
        if len(rows)
    }


def _pack_means(rows: pd.DataFrame, over: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for measure, part in rows.groupby("measure", sort=False):
        part = part.sort_values("step")
        if math.isfinite(part["mean"].max()):
            mean, errors = pack_floats(_numbers(part["mean"])), pack_floats(_numbers(part["se"]))
            found[str(measure)] = {"mean": mean, "over": int(part[over].iloc[0])}
            found[str(measure)] |= {"se": errors} if part["se"].notna().any() else {}
    return found


def _numbers(values: pd.Series[Any]) -> np.ndarray:
    known = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(known), known, np.nan)
