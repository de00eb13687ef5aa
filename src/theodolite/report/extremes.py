"""The units of a layer with the highest and lowest M and V."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from theodolite.escaping import restore_space
from theodolite.report.tables import Tables, number, populations
from theodolite.text import pluralize

ENOUGH = 10
MOST = 8


@dataclass(frozen=True)
class Unit:
    """A unit as text, and its numbers."""

    text: str
    special: bool
    n: float
    q: float
    m: float
    v: float


@dataclass(frozen=True)
class Extremes:
    """The units of one layer with the highest and lowest M and V, and how they were chosen."""

    layer: float
    layer_name: str
    population: str
    chosen: str
    lists: dict[str, list[Unit]]


def find_extremes(tables: Tables) -> list[Extremes]:
    """Return the extremes of the middle layer and of the last; empty if the table of tokens is empty."""
    frame = tables.tokens
    if not {"layer", "population", "unit", "n", "m", "v"} <= set(frame.columns) or not len(frame):
        return []
    known = set(frame["population"].unique())
    population = next((name for name in populations(tables) if name in known), None) or str(
        sorted(map(str, known))[0]
    )
    frame = frame[frame["population"] == population]
    layers = sorted(frame["layer"].dropna().unique())
    chosen = dict.fromkeys((layers[len(layers) // 2], layers[-1])) if layers else {}
    return [
        _find_layer_extremes(tables, frame[frame["layer"] == layer], float(layer), population) for layer in chosen
    ]


def _find_layer_extremes(tables: Tables, frame: pd.DataFrame, layer: float, population: str) -> Extremes:
    enough, chosen = _select_frequent(frame.dropna(subset=["n"]))
    rows = min(MOST, (len(enough) + 1) // 2)
    lists = {
        f"{column}-{end}": list_units(
            tables, enough.sort_values(column, ascending=end == "low", kind="stable").head(rows)
        )
        for column in ("m", "v")
        for end in ("high", "low")
    }
    return Extremes(layer, _layer_name(tables, layer), population, chosen, lists)


def _select_frequent(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the units to list, which have M and V, and a sentence on how they were chosen."""
    often, units = int((frame["n"] >= ENOUGH).sum()), pluralize(len(frame), "unit")
    frame = frame.dropna(subset=["m", "v"])
    if not len(frame):
        return frame, "no unit has values at this layer"
    enough = frame[frame["n"] >= ENOUGH]
    if len(enough):
        known = f", and {len(enough):,} of these have M and V" if len(enough) < often else ""
        return enough, f"{often:,} of {units} occur at least {ENOUGH} times{known}"
    # The corpus is small: choose enough of the most frequent units to fill the lists, if possible.
    least = float(frame["n"].nlargest(2 * MOST).min())
    enough = frame[frame["n"] >= least]
    reason = f"no unit that occurs {ENOUGH} times has M and V" if often else f"no unit occurs {ENOUGH} times"
    return enough, (
        f"{reason}; these are the {pluralize(len(enough), 'most frequent unit')}, with "
        f"at least {pluralize(least, 'occurrence')}"
    )


def list_units(tables: Tables, frame: pd.DataFrame) -> list[Unit]:
    """Return the rows of the table of tokens as units with their texts."""
    units = set(frame["unit"])
    known = _unit_texts(tables.units[tables.units["unit"].isin(units)]) if "unit" in tables.units.columns else {}
    found = []
    for row in frame.to_dict("records"):
        text, special = known.get(row["unit"], (restore_space(str(row["unit"])), False))
        n, m, v = (number(row, key) for key in ("n", "m", "v"))
        found.append(Unit(text, special, n, m + v, m, v))
    return found


def _unit_texts(units: pd.DataFrame) -> dict[object, tuple[str, bool]]:
    texts = {}
    for row in units.to_dict("records"):
        text = row.get("text")
        readable = text if isinstance(text, str) else restore_space(str(row["unit"]))
        texts[row["unit"]] = (readable, number(row, "special") == 1)
    return texts


def _layer_name(tables: Tables, layer: float) -> str:
    if {"layer", "layer_name"} <= set(tables.layers.columns):
        names = tables.layers.loc[tables.layers["layer"] == layer, "layer_name"].dropna()
        if len(names):
            return str(names.iloc[0])
    return f"layer {layer:g}"
