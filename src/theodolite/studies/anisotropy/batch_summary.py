"""Batches summed up: mean, standard deviation and number, by layer and population."""

from __future__ import annotations

import pandas as pd

from theodolite.measures.batches import Batched, averaged

BATCHES = "batches"
"""The name of the table among a survey's, and of how it was made among its facts."""
CONTIGUOUS, SHUFFLED = "contiguous", "shuffled"
MEASURED = {
    "contiguous": (CONTIGUOUS, "anisotropy_svd"),
    "shuffled": (SHUFFLED, "anisotropy_svd"),
    "twonn": (SHUFFLED, "twonn"),
}
"""By the head of its three columns: whose batches, and which number of theirs."""


def summary(table: pd.DataFrame, layers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a row per layer and population: `contiguous`, `shuffled` and `twonn`, each with `_sd` and `_batches`.

    A batch without the number does not count. `layers` is the survey's own table, for the SVD anisotropy of
    everything beside them (`everything`).
    """
    rows = []
    for (layer, name, population), group in table.groupby(["layer", "layer_name", "population"], sort=False):
        row = {"layer": layer, "layer_name": name, "population": population, "n": _typical(group)}
        for head, (kind, column) in MEASURED.items():
            found = _averaged(group[group["kind"] == kind][column])
            row |= {head: found.mean, f"{head}_sd": found.sd, f"{head}_batches": found.batches}
        rows.append(row)
    every = pd.DataFrame(rows)
    if layers is None:
        return every
    exact = layers[["layer", "population", "anisotropy_svd"]].rename(columns={"anisotropy_svd": "everything"})
    return every.merge(exact, on=["layer", "population"], how="left")


def _averaged(values: pd.Series) -> Batched:
    return averaged([float(value) for value in values.dropna()])


def _typical(group: pd.DataFrame) -> int:
    """Return the middle size of the contiguous batches."""
    return int(group.loc[group["kind"] == CONTIGUOUS, "n"].median())
