"""The token table as one matrix a population: units by layers, so that a slider moves from row to row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from theodolite.report.payload.pack import counts, short_floats, small
from theodolite.report.payload.profiles import layers
from theodolite.report.rows import populations
from theodolite.report.tables import Tables
from theodolite.report.text import spelled, visible

NEEDED = {"layer", "population", "unit", "n", "m", "v"}


def units(tables: Tables) -> dict[str, Any]:
    """Return what each unit reads as, and which are special; in the order that the matrices have."""
    texts, special = _words(tables, order(tables))
    return {"text": texts, "special": small(special)}


def tokens(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return, by population, n of each unit and M and V by layer and unit; Q is their sum.

    A unit that a population has not seen at a layer has NaN there.
    """
    frame = tables.tokens
    if not set(frame.columns) >= NEEDED or not len(frame):
        return {}
    listed = order(tables)
    places = {unit: float(place) for place, unit in enumerate(listed)}
    depth = {layer["layer"]: place for place, layer in enumerate(layers(tables))}
    found: dict[str, dict[str, Any]] = {}
    for population in populations(tables):
        rows = frame[frame["population"] == population]
        if not len(rows):
            continue
        row = rows["layer"].map(depth).to_numpy(dtype=float, na_value=np.nan)
        column = np.array([places.get(unit, np.nan) for unit in rows["unit"].to_numpy(dtype=object)])
        known = np.isfinite(row) & np.isfinite(column)
        at = (row[known].astype(int), column[known].astype(int))
        values = {}
        for name in ("m", "v"):
            matrix = np.full((len(depth), len(listed)), np.nan, dtype=np.float32)
            matrix[at] = rows[name].to_numpy(dtype=float, na_value=np.nan)[known]
            values[name] = short_floats(matrix)
        often = np.zeros((len(depth), len(listed)))
        often[at] = np.nan_to_num(rows["n"].to_numpy(dtype=float, na_value=np.nan)[known])
        seen = often.max(axis=0, initial=0)
        # Massive vectors leave layer by layer, so that n is not the same at all; told only where it is not.
        fewer = np.nonzero(often != seen)
        found[population] = {"n": counts(seen), **values}
        if len(fewer[0]):
            found[population]["fewer"] = [counts(each) for each in (*fewer, often[fewer])]
    return found


def order(tables: Tables) -> list[Any]:
    """Return the units, most frequent first: what is searched, listed and drawn last is what people look for."""
    frame = tables.tokens
    if not set(frame.columns) >= NEEDED or not len(frame):
        return []
    # By number, not by an index of texts: a lone surrogate has no place in an Arrow string.
    place, units = pd.factorize(frame["unit"].to_numpy(dtype=object))
    known = place >= 0
    seen = np.zeros(len(units))
    np.fmax.at(seen, place[known], frame["n"].to_numpy(dtype=float, na_value=np.nan)[known])
    return [units[at] for at in np.argsort(-seen, kind="stable")]


def _words(tables: Tables, listed: list[Any]) -> tuple[list[str], list[bool]]:
    known: dict[Any, tuple[Any, bool]] = {}
    if "unit" in tables.units.columns:
        texts = tables.units["text"] if "text" in tables.units.columns else [None] * len(tables.units)
        special = tables.units["special"] if "special" in tables.units.columns else [False] * len(tables.units)
        for unit, text, is_special in zip(tables.units["unit"], texts, special, strict=True):
            known[unit] = (text, bool(pd.notna(is_special) and is_special == 1))
    words, marks = [], []
    for unit in listed:
        text, is_special = known.get(unit, (None, False))
        words.append(visible(text if isinstance(text, str) else spelled(str(unit))))
        marks.append(is_special)
    return words, marks
