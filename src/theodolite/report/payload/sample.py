"""The projected sample as packed columns, with the text around its positions and their nearest vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.report.payload.layers import pack_by_layer
from theodolite.report.payload.pack import pack_counts, pack_short_floats, pack_signed, pack_small_counts
from theodolite.report.tables import Tables

REPEATED = ("row", "unit")  # columns that are the same at every layer of a stack
ABSENT = -2  # the place of a unit that the page does not hold
BYTES_PER_POINT = 24  # about, at one layer of one population


def limit_points(tables: Tables, most: int) -> pd.DataFrame:
    """Return the projected sample with at most `most` rows, the same positions at every layer.

    Of a sample that is cut, the population without massive vectors is omitted if there is one without sinks, which
    looks the same: the others then have half as many vectors again.
    """
    table = tables.projections
    if len(table) <= most or "row" not in table.columns:
        return table
    if (table["population"] == "without-sinks").any():
        table = table[table["population"] != "without-massive"]
    groups = len(table.groupby(["layer", "population"]))
    # Rows are in the order of the hashes of their positions, so that the first ones are again a sample.
    return table.groupby(["layer", "population"], sort=False).head(max(most // groups, 2))


def pack_projections(
    tables: Tables, places: dict[Any, int], table: pd.DataFrame | None = None
) -> dict[str, list[dict[str, Any] | None]]:
    """Return the projected vectors of the sample and their units, by population and layer.

    `x` and `y`; `row`, which identifies a vector at all layers of a stack; `unit`, its index in the units of the
    page, -1 for none or -2 for a unit that the page does not hold; `norm`, `umap_x`, `umap_y` and `near` (places
    of the nearest vectors at the layer), if the table has them; `share`, the share of the variance in the plane,
    or None. If `row` or `unit` is absent, it is the same as at the layer before.
    """
    table = tables.projections if table is None else table
    found = pack_by_layer(tables, table, {"x", "y"}, lambda part: _pack_plane(part, places))
    for layers in found.values():
        _drop_repeated_columns(layers)
    return found


def _pack_plane(part: pd.DataFrame, places: dict[Any, int]) -> dict[str, Any]:
    packed: dict[str, Any] = {name: pack_short_floats(_numbers(part, name)) for name in ("x", "y")}
    rows = part["row"].to_numpy() if "row" in part.columns else np.arange(len(part))
    packed["row"] = pack_counts(rows)
    packed["unit"] = pack_signed(_unit_places(part, places))
    for name in ("norm", "umap_x", "umap_y"):
        if name in part.columns and np.isfinite(numbers := _numbers(part, name)).any():
            packed[name] = pack_short_floats(numbers)
    near = [name for name in part.columns if str(name).startswith("near")]
    if near:
        packed["near"] = pack_small_counts(_near_places(part[near].to_numpy(), rows))
    share = float(_numbers(part, "share")[0]) if "share" in part.columns else math.nan
    packed["share"] = share if math.isfinite(share) else None
    return packed


def _near_places(near: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the nearest rows among those of the layer, 65,535 for one that is absent."""
    found = pd.Index(rows).get_indexer(near.ravel())
    return np.where(found < 0, 2**16 - 1, found)


def _numbers(part: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return part[name].to_numpy(dtype=float, na_value=np.nan)


def _unit_places(part: pd.DataFrame, places: dict[Any, int]) -> NDArray[np.int64]:
    if "unit" not in part.columns or not len(places):
        return np.full(len(part), -1)
    # One by one, because an index of texts cannot hold a lone surrogate.
    units = part["unit"].to_numpy(dtype=object)
    return np.array([places.get(unit, -1 if pd.isna(unit) else ABSENT) for unit in units], dtype=np.int64)


def _drop_repeated_columns(layers: list[dict[str, Any] | None]) -> None:
    """Remove columns that are the same as at the layer before; most are, and they are a third of the bytes."""
    last: dict[str, Any] = {}
    for layer in filter(None, layers):
        for name in REPEATED:
            if last.get(name) == layer[name]:
                del layer[name]
            else:
                last[name] = layer[name]
