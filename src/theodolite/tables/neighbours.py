"""neighbours.parquet: the units whose mean vectors have the largest cosine with that of each frequent unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from theodolite.devices import to_device
from theodolite.measures.columns import column_names
from theodolite.measures.cosine import largest_cosines
from theodolite.statistics.moments import UnitSums

COLUMNS = column_names("neighbours")
TYPES = {"layer": "int64", "rank": "int64", "cosine": "float32"}
MOST_UNITS = 2000
"""The most frequent units, which have neighbours among each other. Memory: 4 bytes for every pair."""
NEAREST = 6
"""Neighbours of each."""


HashUnits = Callable[[NDArray[np.int64]], NDArray[np.uint64]]
"""Returns the hashes of the keys of units from their codes. (any,) -> (any,)"""


class NearestUnits(NamedTuple):
    """The nearest of the frequent units at one layer."""

    codes: NDArray[np.int64]  # (units,)
    near: NDArray[np.int64]  # (units, neighbours) codes, nearest first
    cosine: NDArray[np.float32]  # (units, neighbours)


def find_nearest_units(sums: UnitSums, hash_units: HashUnits) -> NearestUnits:
    """Return the nearest units of the most frequent ones, by the cosine of their means.

    The hashes of the keys of units decide between those that are equally frequent. A mean of 0 has no
    direction, and is nobody's neighbour. Cost: 2 units² dim operations, on the device of the sums.
    """
    chosen = torch.from_numpy(_most_frequent(sums.n.numpy(), sums.codes.numpy(), hash_units))
    rows, n, centre = (to_device(part, sums.sum.device) for part in (chosen, sums.n[chosen], sums.centre))
    means = sums.sum[rows] / n[:, None] + centre
    norms = means.norm(dim=1, keepdim=True)
    known = torch.nonzero(norms[:, 0] > 0).flatten()
    codes = sums.codes.numpy()[rows[known].cpu().numpy()]
    nearest = max(min(NEAREST, len(codes) - 1), 0)
    if not nearest:
        nothing = np.empty((0, 0))
        return NearestUnits(codes[:0], nothing.astype(np.int64), nothing.astype(np.float32))
    cosine, near = largest_cosines((means[known] / norms[known]).float(), nearest)
    return NearestUnits(codes, codes[near.cpu().numpy()], cosine.cpu().numpy())


def _most_frequent(n: NDArray[np.int64], codes: NDArray[np.int64], hash_units: HashUnits) -> NDArray[np.int64]:
    """Return the rows of the most frequent units, ascending."""
    if len(n) <= MOST_UNITS:
        return np.arange(len(n))
    least = np.partition(n, len(n) - MOST_UNITS)[len(n) - MOST_UNITS]
    above, equal = np.flatnonzero(n > least), np.flatnonzero(n == least)
    chosen = equal[np.argsort(hash_units(codes[equal]), kind="stable")][: MOST_UNITS - len(above)]
    return np.sort(np.concatenate([above, chosen]))


def neighbours_table(
    parts: Sequence[tuple[int, str, NearestUnits]] = (), names: pd.Series | None = None
) -> pd.DataFrame:
    """Return one table of (layer, population, neighbours); `names` are the units' keys by code."""
    tables = [_layer_table(layer, population, found, names) for layer, population, found in parts]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)
    return table.astype(TYPES)


def _layer_table(layer: int, population: str, found: NearestUnits, names: pd.Series | None) -> pd.DataFrame:
    assert names is not None
    count, nearest = found.near.shape
    columns = {
        "layer": layer,
        "population": population,
        "unit": names.take(np.repeat(found.codes, nearest)).array,
        "rank": np.tile(np.arange(1, nearest + 1), count),
        "neighbour": names.take(found.near.ravel()).array,
        "cosine": found.cosine.ravel(),
    }
    return pd.DataFrame(columns, columns=COLUMNS)
