"""Where the sample lies on each layer's plane, and which unit each vector belongs to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from theodolite.report.payload.curves import by_layer
from theodolite.report.payload.pack import counts, short_floats, signed
from theodolite.report.payload.tokens import order
from theodolite.report.tables import Tables

SAME = ("row", "unit")  # of the vectors, and so the same at every layer of a stack


def projections(tables: Tables) -> dict[str, list[dict[str, Any] | None]]:
    """Return, by population and layer, where the vectors of the sample lie, and whose they are.

    `x` and `y`; `row`, a number that is the same for one vector at every layer of a stack; `unit`, its place in
    the survey's units or -1; `norm` where the table tells it; `share` of the variance that the plane holds, None
    where there is none. Where `row` or `unit` is absent, it is as at the layer before.
    """
    places = {unit: place for place, unit in enumerate(order(tables))}
    found = by_layer(tables, tables.projections, {"x", "y"}, lambda part: _layer(part, places))
    for layers in found.values():
        _leave_out_what_repeats(layers)
    return found


def _layer(part: pd.DataFrame, places: dict[Any, int]) -> dict[str, Any]:
    made: dict[str, Any] = {name: short_floats(_numbers(part, name)) for name in ("x", "y")}
    made["row"] = counts(part["row"] if "row" in part.columns else range(len(part)))
    made["unit"] = signed(_places(part, places))
    if "norm" in part.columns:
        made["norm"] = short_floats(_numbers(part, "norm"))
    share = float(_numbers(part, "share")[0]) if "share" in part.columns else math.nan
    made["share"] = share if math.isfinite(share) else None
    return made


def _numbers(part: pd.DataFrame, name: str) -> np.ndarray:
    return part[name].to_numpy(dtype=float, na_value=np.nan)


def _places(part: pd.DataFrame, places: dict[Any, int]) -> np.ndarray:
    if "unit" not in part.columns or not len(places):
        return np.full(len(part), -1)
    # One by one: an index of texts has no place for a lone surrogate.
    return np.array([places.get(unit, -1) for unit in part["unit"].to_numpy(dtype=object)], dtype=np.int64)


def _leave_out_what_repeats(layers: list[dict[str, Any] | None]) -> None:
    """Take away columns that are as at the layer before: most are, and they are a third of the bytes."""
    last: dict[str, Any] = {}
    for layer in filter(None, layers):
        for name in SAME:
            if last.get(name) == layer[name]:
                del layer[name]
            else:
                last[name] = layer[name]
