"""The units at the ends of a layer: farthest from and nearest to the origin, most and least spread."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from theodolite.naming import several
from theodolite.report.rows import ORDER, number
from theodolite.report.tables import Tables
from theodolite.report.text import spelled

ENOUGH = 10
MOST = 8


@dataclass(frozen=True)
class Unit:
    """One line of a list: a unit as it reads, and its numbers."""

    text: str
    special: bool
    n: float
    q: float
    m: float
    v: float


@dataclass(frozen=True)
class Extremes:
    """The four lists of one layer, and which units were allowed in."""

    layer: float
    layer_name: str
    population: str
    chosen: str
    lists: dict[str, list[Unit]]


def extremes(tables: Tables) -> list[Extremes]:
    """Return the extremes of a middle layer and of the last; empty where the tokens table holds nothing."""
    frame = tables.tokens
    if not {"layer", "population", "unit", "n", "m", "v"} <= set(frame.columns) or not len(frame):
        return []
    known = set(frame["population"].unique())
    population = next((name for name in ORDER if name in known), None) or str(sorted(map(str, known))[0])
    frame = frame[frame["population"] == population]
    layers = sorted(frame["layer"].dropna().unique())
    wanted = dict.fromkeys((layers[len(layers) // 2], layers[-1])) if layers else {}
    return [_of_layer(tables, frame[frame["layer"] == layer], float(layer), population) for layer in wanted]


def _of_layer(tables: Tables, frame: pd.DataFrame, layer: float, population: str) -> Extremes:
    enough, chosen = _allowed(frame.dropna(subset=["n", "m", "v"]))
    rows = min(MOST, (len(enough) + 1) // 2)
    lists = {
        f"{column}-{end}": _units(
            tables, enough.sort_values(column, ascending=end == "low", kind="stable").head(rows)
        )
        for column in ("m", "v")
        for end in ("high", "low")
    }
    return Extremes(layer, _layer_name(tables, layer), population, chosen, lists)


def _allowed(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    enough = frame[frame["n"] >= ENOUGH]
    if len(enough):
        return enough, f"{several(len(enough), 'unit')} of {len(frame):,} seen at least {ENOUGH} times"
    if not len(frame):
        return frame, "no unit has its numbers here"
    # Too small a corpus: the most frequent units there are, enough of them to fill the lists where possible.
    least = float(frame["n"].nlargest(2 * MOST).min())
    enough = frame[frame["n"] >= least]
    return enough, (
        f"no unit was seen {ENOUGH} times; these are the {several(len(enough), 'most frequent unit')}, "
        f"seen at least {several(least, 'time')}"
    )


def _units(tables: Tables, frame: pd.DataFrame) -> list[Unit]:
    wanted = set(frame["unit"])
    known = _texts(tables.units[tables.units["unit"].isin(wanted)]) if "unit" in tables.units.columns else {}
    found = []
    for row in frame.to_dict("records"):
        text, special = known.get(row["unit"], (spelled(str(row["unit"])), False))
        found.append(Unit(text, special, *(number(row, key) for key in ("n", "q", "m", "v"))))
    return found


def _texts(units: pd.DataFrame) -> dict[object, tuple[str, bool]]:
    texts = {}
    for row in units.to_dict("records"):
        text = row.get("text")
        readable = text if isinstance(text, str) else spelled(str(row["unit"]))
        texts[row["unit"]] = (readable, number(row, "special") == 1)
    return texts


def _layer_name(tables: Tables, layer: float) -> str:
    if {"layer", "layer_name"} <= set(tables.layers.columns):
        names = tables.layers.loc[tables.layers["layer"] == layer, "layer_name"].dropna()
        if len(names):
            return str(names.iloc[0])
    return f"layer {layer:g}"
