"""Units and sample vectors as packed columns: M and V by layer and unit, and the projections of the sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from theodolite.escaping import restore_space, show_token
from theodolite.report.payload.layers import list_layers, pack_by_layer
from theodolite.report.payload.pack import pack_bytes, pack_counts, pack_short_floats, pack_signed
from theodolite.report.tables import Tables, populations

NEEDED = {"layer", "population", "unit", "n", "m", "v"}


def pack_units(tables: Tables) -> dict[str, Any]:
    """Return the text of each unit and whether it is special, in the order of the matrices."""
    texts, special = _unit_texts(tables, order_units(tables))
    return {"text": texts, "special": pack_bytes(special)}


def pack_tokens(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return n of each unit, and M and V by layer and unit, for each population; Q is their sum.

    A unit that does not occur in a population at a layer has NaN.
    """
    frame = tables.tokens
    if not set(frame.columns) >= NEEDED or not len(frame):
        return {}
    listed = order_units(tables)
    places = {unit: float(place) for place, unit in enumerate(listed)}
    depth = {layer["layer"]: place for place, layer in enumerate(list_layers(tables))}
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
            values[name] = pack_short_floats(matrix)
        often = np.zeros((len(depth), len(listed)))
        often[at] = np.nan_to_num(rows["n"].to_numpy(dtype=float, na_value=np.nan)[known])
        seen = often.max(axis=0, initial=0)
        # Without massive vectors n may differ between layers; only the differences are stored.
        fewer = np.nonzero(often != seen)
        found[population] = {"n": pack_counts(seen), **values}
        if len(fewer[0]):
            found[population]["fewer"] = [pack_counts(each) for each in (*fewer, often[fewer])]
    return found


def order_units(tables: Tables) -> list[Any]:
    """Return the units, most frequent first."""
    frame = tables.tokens
    if not set(frame.columns) >= NEEDED or not len(frame):
        return []
    # By number, because an Arrow string cannot hold a lone surrogate.
    place, units = pd.factorize(frame["unit"].to_numpy(dtype=object))
    known = place >= 0
    seen = np.zeros(len(units))
    np.fmax.at(seen, place[known], frame["n"].to_numpy(dtype=float, na_value=np.nan)[known])
    return [units[at] for at in np.argsort(-seen, kind="stable")]


def _unit_texts(tables: Tables, listed: list[Any]) -> tuple[list[str], list[bool]]:
    known: dict[Any, tuple[Any, bool]] = {}
    if "unit" in tables.units.columns:
        texts = tables.units["text"] if "text" in tables.units.columns else [None] * len(tables.units)
        special = tables.units["special"] if "special" in tables.units.columns else [False] * len(tables.units)
        for unit, text, is_special in zip(tables.units["unit"], texts, special, strict=True):
            known[unit] = (text, bool(pd.notna(is_special) and is_special == 1))
    words, marks = [], []
    for unit in listed:
        text, is_special = known.get(unit, (None, False))
        words.append(show_token(text if isinstance(text, str) else restore_space(str(unit))))
        marks.append(is_special)
    return words, marks


REPEATED = ("row", "unit")  # columns that are the same at every layer of a stack


def pack_projections(tables: Tables) -> dict[str, list[dict[str, Any] | None]]:
    """Return the projected vectors of the sample and their units, by population and layer.

    `x` and `y`; `row`, which identifies a vector at all layers of a stack; `unit`, its index in the survey's units
    or -1; `norm`, if the table has it; `share`, the share of the variance in the plane, or None. If `row` or
    `unit` is absent, it is the same as at the layer before.
    """
    places = {unit: place for place, unit in enumerate(order_units(tables))}
    found = pack_by_layer(tables, tables.projections, {"x", "y"}, lambda part: _pack_plane(part, places))
    for layers in found.values():
        _drop_repeated_columns(layers)
    return found


def _pack_plane(part: pd.DataFrame, places: dict[Any, int]) -> dict[str, Any]:
    packed: dict[str, Any] = {name: pack_short_floats(_numbers(part, name)) for name in ("x", "y")}
    packed["row"] = pack_counts(part["row"] if "row" in part.columns else range(len(part)))
    packed["unit"] = pack_signed(_unit_places(part, places))
    if "norm" in part.columns:
        packed["norm"] = pack_short_floats(_numbers(part, "norm"))
    share = float(_numbers(part, "share")[0]) if "share" in part.columns else math.nan
    packed["share"] = share if math.isfinite(share) else None
    return packed


def _numbers(part: pd.DataFrame, name: str) -> np.ndarray:
    return part[name].to_numpy(dtype=float, na_value=np.nan)


def _unit_places(part: pd.DataFrame, places: dict[Any, int]) -> np.ndarray:
    if "unit" not in part.columns or not len(places):
        return np.full(len(part), -1)
    # One by one, because an index of texts cannot hold a lone surrogate.
    return np.array([places.get(unit, -1) for unit in part["unit"].to_numpy(dtype=object)], dtype=np.int64)


def _drop_repeated_columns(layers: list[dict[str, Any] | None]) -> None:
    """Remove columns that are the same as at the layer before; most are, and they are a third of the bytes."""
    last: dict[str, Any] = {}
    for layer in filter(None, layers):
        for name in REPEATED:
            if last.get(name) == layer[name]:
                del layer[name]
            else:
                last[name] = layer[name]
