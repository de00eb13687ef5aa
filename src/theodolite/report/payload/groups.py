"""The groups of documents by a field as packed columns: numbers by layer and group, and of pairs of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from theodolite.escaping import make_visible
from theodolite.measures.columns import COLUMNS
from theodolite.measures.group_differences import PAIRED
from theodolite.report.payload.layers import list_layers
from theodolite.report.payload.pack import pack_short_floats
from theodolite.report.tables import Tables, populations

MOST_GROUPS = 48
"""Groups on the page at most, the first in the order of the table; the others are in groups.parquet only."""
SHOWN = (
    "mean_cosine mean_cosine_se q m v v_within v_between anisotropy_svd participation_ratio effective_rank "
    "norm_p50 n nearest_distance"
).split()


def pack_groups(tables: Tables, most: int = MOST_GROUPS) -> dict[str, Any] | None:
    """Return the groups of a survey, None if it has none.

    `columns` has by population and column a number for each layer and group, `pairs` by population and number one
    for each layer and two groups, `nearest` the place of the nearest group for each layer and group, -1 if it is
    not on the page.
    """
    if not len(tables.groups):
        return None
    field = tables.facts.get("by") or {}
    names = list(dict.fromkeys(tables.groups["group"].astype(str)))
    kept, layers = names[:most], [layer["layer"] for layer in list_layers(tables)]
    documents = tables.groups.drop_duplicates("group").set_index("group")["documents"]
    found: dict[str, Any] = {
        "field": make_visible(str(field.get("field", "group"))),
        "names": [make_visible(name) for name in kept],
        "documents": [int(documents[name]) for name in kept],
        "left_out": len(names) - len(kept),
        "labels": {name: COLUMNS["group_differences"][name].title for name in PAIRED},
        "columns": {},
        "nearest": {},
        "pairs": {},
    }
    groups = tables.groups[tables.groups["group"].isin(kept)]
    apart = tables.group_differences
    apart = apart[apart["group"].isin(kept) & apart["other"].isin(kept)]
    places = {name: place for place, name in enumerate(kept)}
    for population in populations(tables):
        own = groups[groups["population"] == population].set_index(["layer", "group"])
        own = own.reindex(pd.MultiIndex.from_product([layers, kept]))
        found["columns"][population] = {
            name: pack_short_floats(own[name].to_numpy(np.float64, na_value=np.nan))
            for name in SHOWN
            if name in own  # older tables have no V_W
        }
        found["nearest"][population] = [places.get(name, -1) for name in own["nearest"]]
        found["pairs"][population] = _pack_pairs(apart[apart["population"] == population], layers, places)
    return found


def _pack_pairs(apart: pd.DataFrame, layers: list[int], places: dict[str, int]) -> dict[str, Any]:
    """Return by number a matrix (layers, groups, groups); the diagonal is empty."""
    at = tuple(apart[name].map(of) for name, of in (("group", places), ("other", places)))
    layer = apart["layer"].map({number: place for place, number in enumerate(layers)})
    packed = {}
    for name in PAIRED:
        matrix = np.full((len(layers), len(places), len(places)), np.nan)
        matrix[layer, at[0], at[1]] = matrix[layer, at[1], at[0]] = apart[name]
        packed[name] = pack_short_floats(matrix)
    return packed
