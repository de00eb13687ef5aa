"""The layer table by population and column, a number a layer."""

from __future__ import annotations

import math
from typing import Any

from theodolite.report.payload.pack import floats
from theodolite.report.rows import layer_name, layer_rows, number, populations, reasons
from theodolite.report.tables import Tables
from theodolite.report.text import plain
from theodolite.studies.anisotropy.depth import places
from theodolite.studies.surveyed import Surveyed

HEAD = {"layer", "layer_name", "library_index", "population", "undefined", "stack"}


def layers(tables: Tables) -> list[dict[str, Any]]:
    """Return number, name and depth of each layer: 0 at the embeddings, 1 at the last block, as in exhibits."""
    named = {number(row, "layer"): layer_name(row) for p in populations(tables) for row in layer_rows(tables, p)}
    known = {int(layer): str(named[layer]) for layer in sorted(named)}
    listed = [{"index": layer, "name": name} for layer, name in known.items()]
    where = places(Surveyed({"model": tables.facts.get("model"), "layers": listed}))
    return [
        {"layer": layer, "name": plain(name), "depth": where[layer].joined_depth} for layer, name in known.items()
    ]


def profiles(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return, by population, `columns` (packed, a number a layer) and `reasons` for what is undefined."""
    order = [layer["layer"] for layer in layers(tables)]
    columns = [str(name) for name in tables.layers.columns if str(name) not in HEAD]
    found = {}
    for population in populations(tables):
        rows = {int(number(row, "layer")): row for row in layer_rows(tables, population)}
        packed, why = {}, {}
        for column in columns:
            values = [number(rows[layer], column) if layer in rows else math.nan for layer in order]
            said = next((r for row in rows.values() if (r := reasons(row).get(column))), "")
            if said:
                why[column] = plain(said)
            if any(math.isfinite(value) for value in values):
                packed[column] = floats([value if math.isfinite(value) else math.nan for value in values])
        found[population] = {"columns": packed, "reasons": why}
    return found
