"""One series as the page's script sees it: every measure by step and layer, and its means over layers by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.report.catalogue import GROUPS
from theodolite.report.payload.pack import floats, short_floats
from theodolite.report.payload.profiles import layers
from theodolite.report.rows import layer_rows, populations, reasons
from theodolite.report.series_tables import Steps
from theodolite.report.text import plain
from theodolite.studies.dynamics.attention_means import attention_means
from theodolite.studies.dynamics.averages import averages
from theodolite.studies.dynamics.names import ATTENTION, SERIES
from theodolite.studies.surveyed import Surveyed

CHOSEN = [column for group in GROUPS.values() for column in group]
KEYS = ["step", "layer"]


def series_payload(series: Steps) -> dict[str, Any]:
    """Return steps, layers, populations; `profiles`, (steps, layers) a column; `averages`; `attention`."""
    whole = {name: _whole(series, name) for name in populations(series.tables)}
    columns = [column for column in CHOSEN if column in series.table.columns]
    return {
        "name": plain(series.name),
        "steps": series.steps,
        "layers": layers(series.tables),
        "populations": list(whole),
        "profiles": {name: _profiles(series, name, rows, columns) for name, rows in whole.items()},
        "averages": {name: _averages(rows, name, columns) for name, rows in whole.items()},
        "attention": _attention(series),
    }


def _whole(series: Steps, population: str) -> pd.DataFrame:
    """Return a population's rows, every step with every layer: what a step does not tell is null."""
    order = [layer["layer"] for layer in layers(series.tables)]
    names = {layer["layer"]: layer["name"] for layer in layers(series.tables)}
    rows = series.table[series.table["population"] == population].drop_duplicates(KEYS)
    index = pd.MultiIndex.from_product([series.steps, order], names=KEYS)
    rows = rows.set_index(KEYS).reindex(index).reset_index()
    return rows.assign(layer_name=rows["layer"].map(names), population=population)


def _profiles(series: Steps, population: str, rows: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    packed = {}
    for column in [name for each in columns for name in (each, f"{each}_se") if name in rows.columns]:
        values = _numbers(rows[column])
        if np.isfinite(values).any():
            packed[column] = short_floats(values)
    why: dict[str, str] = {}
    for row in layer_rows(series.tables, population):
        why |= {column: plain(said) for column, said in reasons(row).items() if column not in why}
    return {"columns": packed, "reasons": {column: why[column] for column in columns if column in why}}


def _averages(rows: pd.DataFrame, population: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return, by scope and column, the mean over the layers that tell it at every step, and of how many."""
    made = averages(Surveyed({}, {SERIES: rows}), [population], columns)
    return {str(scope): _means(part, "layers") for scope, part in made.groupby("scope", sort=False)}


def _attention(series: Steps) -> dict[str, Any]:
    if not {"step", "population", "documents"} <= set(series.attention.columns):
        return {}
    survey = Surveyed({}, {ATTENTION: series.attention})
    known = [str(name) for name in series.attention["population"].dropna().unique()]
    made = {name: attention_means(survey, name, series.name) for name in known}
    return {
        name: {
            "steps": sorted(int(step) for step in rows["step"].unique()),
            "documents": int(rows["documents"].max()),
            "measures": _means(rows, "blocks"),
        }
        for name, rows in made.items()
        if len(rows)
    }


def _means(rows: pd.DataFrame, over: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for measure, part in rows.groupby("measure", sort=False):
        part = part.sort_values("step")
        if math.isfinite(part["mean"].max()):
            mean, errors = floats(_numbers(part["mean"])), floats(_numbers(part["se"]))
            found[str(measure)] = {"mean": mean, "over": int(part[over].iloc[0])}
            found[str(measure)] |= {"se": errors} if part["se"].notna().any() else {}
    return found


def _numbers(values: pd.Series[Any]) -> np.ndarray:
    known = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(known), known, np.nan)
