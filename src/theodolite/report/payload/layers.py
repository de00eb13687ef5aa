"""The tables that have a row per layer as packed columns: profiles, spectra, and dimension by scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from theodolite.escaping import make_visible
from theodolite.report.payload.pack import pack_counts, pack_floats
from theodolite.report.tables import (
    Tables,
    layer_name,
    layer_rows,
    number,
    populations,
    select_defined,
    undefined_reasons,
)
from theodolite.studies.anisotropy.layers import layer_depths
from theodolite.studies.survey_data import SurveyData

HEAD = {"layer", "layer_name", "library_index", "population", "undefined", "stack"}


def list_layers(tables: Tables) -> list[dict[str, Any]]:
    """Return number, name and depth of each layer; the depth is 0 at the embeddings and 1 at the last block."""
    named = {number(row, "layer"): layer_name(row) for p in populations(tables) for row in layer_rows(tables, p)}
    known = {int(layer): str(named[layer]) for layer in sorted(named)}
    listed = [{"index": layer, "name": name} for layer, name in known.items()]
    where = layer_depths(SurveyData({"model": tables.facts.get("model"), "layers": listed}))
    return [
        {"layer": layer, "name": make_visible(name), "depth": where[layer].joined_depth}
        for layer, name in known.items()
    ]


def choose_opening_layer(tables: Tables) -> int:
    """Return the place of the layer that charts of one layer open at: where V falls with M most clearly.

    That is the largest R2 of V on M among the layers with a negative slope; the last layer if there is none.
    """
    places = {layer["layer"]: place for place, layer in enumerate(list_layers(tables))}
    rows = layer_rows(tables, next(iter(populations(tables)), ""))
    falling = [row for row in select_defined(rows, "tradeoff_r2") if number(row, "tradeoff_slope") < 0]
    if not falling:
        return max(len(places) - 1, 0)
    return places[int(number(max(falling, key=lambda row: number(row, "tradeoff_r2")), "layer"))]


def pack_profiles(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return, by population, `columns` (packed, one number per layer) and `reasons` for undefined columns."""
    order = [layer["layer"] for layer in list_layers(tables)]
    columns = [str(name) for name in tables.layers.columns if str(name) not in HEAD]
    found = {}
    for population in populations(tables):
        rows = {int(number(row, "layer")): row for row in layer_rows(tables, population)}
        packed, why = {}, {}
        for column in columns:
            values = [number(rows[layer], column) if layer in rows else math.nan for layer in order]
            reason = next((r for row in rows.values() if (r := undefined_reasons(row).get(column))), "")
            if reason:
                why[column] = make_visible(reason)
            if any(math.isfinite(value) for value in values):
                packed[column] = pack_floats([value if math.isfinite(value) else math.nan for value in values])
        found[population] = {"columns": packed, "reasons": why}
    return found


RANKS = 160  # points of a spectrum that are drawn: the first ones all, then evenly spaced in the logarithm


def pack_spectra(tables: Tables, ranks: int = RANKS) -> dict[str, list[dict[str, Any] | None]]:
    """Return `rank`, `share` and `cumulative` of the eigenvalues, by population and layer."""
    needed = {"rank", "share", "cumulative"}
    return pack_by_layer(tables, tables.spectra, needed, lambda part: _pack_spectrum(part, ranks))


def pack_scales(tables: Tables) -> dict[str, list[dict[str, Any] | None]]:
    """Return the dimension at each scale and its standard error, by population and layer."""
    return pack_by_layer(tables, tables.scales, {"scale", "dimension"}, _pack_scale)


def select_ranks(length: int, count: int = RANKS) -> list[int]:
    """Return indices into a spectrum: all of the first ones, and always the last.

    >>> select_ranks(5)
    [0, 1, 2, 3, 4]
    >>> len(select_ranks(4096)) <= RANKS, select_ranks(4096)[-1]
    (True, 4095)
    """
    if length <= count:
        return list(range(length))
    return sorted({0, *(round(x) - 1 for x in np.geomspace(1, length, count))})


def pack_by_layer(tables: Tables, frame: pd.DataFrame, needed: set[str], make: Any) -> dict[str, Any]:
    """Return the result of `make` for the rows of each population and layer; None for a layer without rows."""
    if not set(frame.columns) >= {"layer", "population", *needed}:
        return {}
    order = [layer["layer"] for layer in list_layers(tables)]
    found: dict[str, Any] = {}
    for population in populations(tables):
        rows = frame[frame["population"] == population]
        if len(rows):
            parts = dict(tuple(rows.groupby("layer", sort=True)))
            found[population] = [make(parts[layer]) if layer in parts else None for layer in order]
    return found


def _pack_spectrum(part: pd.DataFrame, ranks: int) -> dict[str, Any]:
    part = part.sort_values("rank").iloc[select_ranks(len(part), ranks)]
    return {
        "rank": pack_counts(part["rank"]),
        "share": pack_floats(part["share"]),
        "cumulative": pack_floats(part["cumulative"]),
    }


def _pack_scale(part: pd.DataFrame) -> dict[str, Any]:
    part = part.sort_values("scale")
    errors = part["se"] if "se" in part.columns else np.full(len(part), np.nan)
    return {
        "scale": pack_counts(part["scale"]),
        "dimension": pack_floats(part["dimension"]),
        "se": pack_floats(errors),
    }
