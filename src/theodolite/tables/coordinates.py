"""coordinates.parquet: what each coordinate contributes to a layer's numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from theodolite.measures.columns import column_names
from theodolite.measures.coordinates import between, coordinate_moments, cosine_shares, within
from theodolite.measures.unit_sums import spread_of_means, sum_units
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.tables.curves import with_layer_columns
from theodolite.tables.rare_units import RarePart

COORDINATES = column_names("coordinates")


def coordinate_rows(
    fold: LayerFold,
    cells: Sequence[int],
    sums: UnitSums,
    *,
    v_within: float | None,
    v_between: float | None = None,
    with_units: bool = True,
    rare: RarePart | None = None,
) -> pd.DataFrame:
    """Measure one population's coordinates; no rows where no vector belongs to it. O(units x dim).

    `v_within` is the layer's V_W, which float64 sums know to be 0 where it is: then every v_within_i is. With
    `rare`, units without a vector, `v_between` is the layer's V_B, to which v_between_i are estimated.
    """
    n, total = sums.n.numpy(), sums.readable
    positions = int(n.sum()) + (0 if rare is None else rare.n)
    if not positions or fold.wide:  # a million rows a layer would say little
        return pd.DataFrame({column: [] for column in COORDINATES[2:]})
    away = (sum_units(total) + (0 if rare is None else rare.sums.sum.numpy())) / positions
    mean = away + sums.centre.numpy()
    second, v = (part.numpy() for part in fold.scatter.variances(cells))
    undefined = np.full(len(mean), np.nan)
    v_between_i, v_within_i = undefined, undefined
    if with_units:
        if rare is None:
            v_between_i = between(n, total)
        else:
            known = spread_of_means(n, total, away) * (n.sum() / positions) if n.sum() else np.zeros(len(mean))
            most = np.maximum(v, known)  # v is known to rounding; only its parts are estimated
            v_between_i = rare.between_by_coordinate(sums, away, v_between or 0.0, known, most, positions)
        v_within_i = within(second, v, v_between_i) if v_within else np.zeros(len(mean))
        v = v_within_i + v_between_i
    q, v = coordinate_moments(mean, v)
    directions, chosen = fold.directions, list(cells)
    shares = cosine_shares(
        int(directions.n[chosen].sum()),
        directions.sum[chosen].sum(0).numpy(),
        directions.squares[chosen].sum(0).numpy(),
    )
    columns = (np.arange(len(mean)), q, mean, v, v_within_i, v_between_i, shares)
    return pd.DataFrame(dict(zip(COORDINATES[2:], columns, strict=True)))


def join_coordinates(parts: Sequence[tuple[int, str, pd.DataFrame]]) -> pd.DataFrame:
    """Return one table of (layer, population, rows)."""
    table = with_layer_columns(parts) if parts else pd.DataFrame(columns=COORDINATES)
    return table[COORDINATES].astype({"layer": "int64", "coordinate": "int64"})
