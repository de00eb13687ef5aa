"""Rows of the layer table as plain values: what is absent, null or not a number reads as NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from theodolite.report.tables import Tables

Row = dict[str, Any]

ORDER = ("all", "without-first", "without-massive")


def populations(tables: Tables) -> list[str]:
    """Return the populations present, the three known ones first and in their order."""
    if "population" not in tables.layers.columns:
        return []
    present = {str(name) for name in tables.layers["population"].dropna().unique()}
    return [name for name in ORDER if name in present] + sorted(present - set(ORDER))


def style_of(population: str, known: list[str]) -> int:
    """Return the style a population is drawn in: the same on every page, whichever others are present."""
    return ORDER.index(population) if population in ORDER else len(ORDER) + known.index(population)


def layer_rows(tables: Tables, population: str) -> list[Row]:
    """Return a population's rows, from the first layer to the last."""
    if tables not in _read:
        _read[tables] = _by_population(tables)
    return list(_read[tables].get(population, ()))


# A page asks for them a hundred times, and pandas takes milliseconds for each; finished tables do not change.
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
    """Return a cell as a float; NaN where there is none."""
    try:
        return float(row[column])
    except (KeyError, TypeError, ValueError):
        return math.nan


def layer_name(row: Row) -> str:
    """Return what a layer is called: its name, else its number."""
    name = row.get("layer_name")
    return name if isinstance(name, str) and name else f"layer {number(row, 'layer'):g}"


def reasons(row: Row) -> dict[str, str]:
    """Return why columns of this row are undefined, by column; empty where nothing is said.

    >>> reasons({"undefined": '{"tradeoff_r2": "V is 0 for every unit"}'})
    {'tradeoff_r2': 'V is 0 for every unit'}
    """
    said = row.get("undefined")
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return {}
    return {str(key): str(value) for key, value in said.items()} if isinstance(said, dict) else {}


def defined(rows: list[Row], column: str) -> list[Row]:
    """Return the rows where a column is a finite number."""
    return [row for row in rows if math.isfinite(number(row, column))]
