"""Spectra, and dimension by scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from theodolite.report.payload.pack import counts, floats
from theodolite.report.payload.profiles import layers
from theodolite.report.rows import populations
from theodolite.report.tables import Tables

RANKS = 160  # points a spectrum is drawn from: every one at first, then evenly in the logarithm


def spectra(tables: Tables) -> dict[str, list[dict[str, Any] | None]]:
    """Return, by population and layer, `rank`, `share` and `cumulative` of the eigenvalues."""
    return by_layer(tables, tables.spectra, {"rank", "share", "cumulative"}, _spectrum)


def scales(tables: Tables) -> dict[str, list[dict[str, Any] | None]]:
    """Return, by population and layer, the dimension at each scale and its standard error."""
    return by_layer(tables, tables.scales, {"scale", "dimension"}, _scale)


def chosen_ranks(length: int, wanted: int = RANKS) -> list[int]:
    """Return places into a spectrum: the first ones all, the last one always.

    >>> chosen_ranks(5)
    [0, 1, 2, 3, 4]
    >>> len(chosen_ranks(4096)) <= RANKS, chosen_ranks(4096)[-1]
    (True, 4095)
    """
    if length <= wanted:
        return list(range(length))
    return sorted({0, *(round(x) - 1 for x in np.geomspace(1, length, wanted))})


def by_layer(tables: Tables, frame: pd.DataFrame, needed: set[str], make: Any) -> dict[str, Any]:
    """Return what `make` makes of a table's rows, by population and layer; None where a layer has none."""
    if not set(frame.columns) >= {"layer", "population", *needed}:
        return {}
    order = [layer["layer"] for layer in layers(tables)]
    found: dict[str, Any] = {}
    for population in populations(tables):
        rows = frame[frame["population"] == population]
        if len(rows):
            parts = dict(tuple(rows.groupby("layer", sort=True)))
            found[population] = [make(parts[layer]) if layer in parts else None for layer in order]
    return found


def _spectrum(part: pd.DataFrame) -> dict[str, Any]:
    part = part.sort_values("rank").iloc[chosen_ranks(len(part))]
    return {"rank": counts(part["rank"]), "share": floats(part["share"]), "cumulative": floats(part["cumulative"])}


def _scale(part: pd.DataFrame) -> dict[str, Any]:
    part = part.sort_values("scale")
    errors = part["se"] if "se" in part.columns else np.full(len(part), np.nan)
    return {"scale": counts(part["scale"]), "dimension": floats(part["dimension"]), "se": floats(errors)}
