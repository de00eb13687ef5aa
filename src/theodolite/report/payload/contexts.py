"""Occurrences with the text around them, and the nearest units, for the units and vectors that a page holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from theodolite.escaping import make_visible
from theodolite.report.payload.layers import list_layers
from theodolite.report.payload.pack import pack_bytes, pack_counts, pack_signed, pack_small_counts, to_json
from theodolite.report.tables import Tables

SIDE = 70  # characters of text on each side
FRAME, NUMBERS = 300, 17  # bytes of the names, and of the unit, document and position of an occurrence
NONE = 2**16 - 1  # the place of a neighbour that the page does not hold


def pack_contexts(tables: Tables, places: dict[Any, int], budget: int) -> dict[str, Any]:
    """Return occurrences of units, most frequent units first, until they take `budget` bytes.

    `unit` (places), `document` and `position`, and `text`: before, the unit and after, three entries each.
    """
    table = tables.contexts
    if not len(table) or not places:
        return {}
    table = table[table["unit"].isin(set(places))]
    at = np.array([places[unit] for unit in table["unit"]], dtype=np.int64)
    # The table also has positions of the sample, so that some units have more than three.
    order = np.lexsort((table["key"].to_numpy(), at))
    table, at = table.iloc[order], at[order]
    nth = np.arange(len(at)) - np.searchsorted(at, at)
    table, at = table[nth < 3], at[nth < 3]
    found = _take(table, budget)
    return {"unit": pack_counts(at[: found["document"]["count"]])} | found if found else {}


def pack_points(tables: Tables, projected: pd.DataFrame, budget: int) -> dict[str, Any]:
    """Return the document, the position and the text of the projected vectors, by `row`, within `budget` bytes."""
    if not len(tables.contexts) or not {"row", "key"} <= set(projected.columns):
        return {}
    rows = projected.drop_duplicates("row").set_index("key")["row"]
    table = tables.contexts[tables.contexts["key"].isin(rows.index)].drop_duplicates("key").sort_values("key")
    found = _take(table, budget)
    if not found:
        return {}
    # Documents and positions are small; all are kept, also without the text.
    numbers = {name: table[name].to_numpy() for name in ("document", "position")}
    return {
        "row": pack_counts(rows.reindex(table["key"]).to_numpy()),
        **{name: pack_signed(values) for name, values in numbers.items()},
        "text": found["text"],
    }


def _take(table: pd.DataFrame, budget: int) -> dict[str, Any]:
    texts: list[str] = []
    size, count = FRAME, 0
    for before, text, after in zip(table["before"], table["text"], table["after"], strict=True):
        new = [make_visible(str(before)[-SIDE:]), make_visible(text), make_visible(str(after)[:SIDE])]
        size += len(to_json(new)) + NUMBERS
        if size > budget:
            break
        texts += new
        count += 1
    if not count:
        return {}
    kept = table.iloc[:count]
    numbers = {name: pack_signed(kept[name].to_numpy()) for name in ("document", "position")}
    return {**numbers, "text": texts}


def pack_neighbours(tables: Tables, places: dict[Any, int], budget: int) -> dict[str, Any]:
    """Return the nearest units of the most frequent ones at every layer, within `budget` bytes.

    `units` (places), `nearest` (how many each has), and by layer `near` (places) and `cosine` (0 to 255, from
    `low` to `high`); None for a layer without.
    """
    table = tables.neighbours
    if not len(table) or not places:
        return {}
    layers = [layer["layer"] for layer in list_layers(tables)]
    nearest = int(table["rank"].max())
    # Three bytes as base64 for a neighbour, six for a unit; the names and limits take less than the frames.
    most = int((budget - FRAME * (1 + len(layers))) / (len(layers) * nearest * 4 + 6))
    known = sorted({places[unit] for unit in table["unit"].unique() if unit in places})[: max(most, 0)]
    if not known:
        return {}
    column = {place: at for at, place in enumerate(known)}
    at = np.array([column.get(places.get(unit, -1), -1) for unit in table["unit"]])
    near = np.array([min(places.get(unit, NONE), NONE) for unit in table["neighbour"]])
    rank = table["rank"].to_numpy() - 1
    packed: list[dict[str, Any] | None] = []
    for layer in layers:
        here = (table["layer"].to_numpy() == layer) & (at >= 0)
        if not here.any():
            packed.append(None)
            continue
        cosine = table["cosine"].to_numpy()[here].astype(float)
        low, high = float(cosine.min()), float(cosine.max())
        found = np.full((len(known), nearest), NONE)
        found[at[here], rank[here]] = near[here]
        level = np.zeros((len(known), nearest))
        level[at[here], rank[here]] = np.round(255 * (cosine - low) / max(high - low, 1e-12))
        packed.append({"near": pack_small_counts(found), "cosine": pack_bytes(level), "low": low, "high": high})
    return {
        "population": str(table["population"].iloc[0]),
        "units": pack_counts(known),
        "nearest": nearest,
        "layers": packed,
    }
