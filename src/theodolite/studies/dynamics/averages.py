"""Every measure of the layers, averaged over them and told step by step: with and without the embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.studies.anisotropy.by_layer import MEAN_NORM, numbers
from theodolite.studies.dynamics.names import SERIES
from theodolite.studies.surveyed import Surveyed

BLOCKS, WITH_EMBEDDINGS, FINAL_NORM = "blocks", "with-embeddings", "final-norm"
SCOPES = (BLOCKS, WITH_EMBEDDINGS, FINAL_NORM)
"""Blocks alone; blocks and embeddings, as the paper has it; what leaves the final norm, which is no block's."""
COLUMNS = "step population scope measure mean se layers".split()


def averages(
    survey: Surveyed, populations: Sequence[str] | None = None, measures: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a row per population, scope, measure and step.

    The mean is over the layers that tell the measure at every step, `layers` of them, so that no step's mean is of
    other layers than another's; NaN where there are none. `se` is the mean of the layers' standard errors: no
    mean of layers that were read off the same text has a larger one.
    """
    table = survey.tables[SERIES]
    wanted = measures_of(table) if measures is None else list(measures)
    tables = [
        _averaged(rows, wanted, population, scope)
        for population in (survey.facts["populations"] if populations is None else populations)
        for scope, rows in scoped(table[table["population"] == population]).items()
        if len(rows)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def measures_of(table: pd.DataFrame) -> list[str]:
    """Return the columns that measure something: numbers, but no counts and no standard errors."""
    known = [
        str(column)
        for column in table.columns
        if pd.api.types.is_float_dtype(table[column]) and not str(column).endswith("_se")
    ]
    return [*known, MEAN_NORM]


def scoped(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each scope."""
    names = rows["layer_name"].astype(str)
    first, last = names.str.endswith("embeddings"), names.str.endswith("final norm")
    return {BLOCKS: rows[~first & ~last], WITH_EMBEDDINGS: rows[~last], FINAL_NORM: rows[last]}


def _averaged(rows: pd.DataFrame, measures: Sequence[str], population: str, scope: str) -> pd.DataFrame:
    ordered = rows.sort_values(["step", "layer"])
    steps = ordered["step"].unique()
    parts = []
    for measure in measures:
        values = _square(numbers(ordered, measure), len(steps))
        mean, kept = mean_of_layers(values)
        errors = _square(numbers(ordered, f"{measure}_se"), len(steps))
        parts.append(
            pd.DataFrame(
                {
                    "step": steps,
                    "population": population,
                    "scope": scope,
                    "measure": measure,
                    "mean": mean,
                    "se": errors[:, kept].mean(axis=1) if kept.any() else np.nan,
                    "layers": int(kept.sum()),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def mean_of_layers(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean over the layers that are known at every step, and which they are. (steps, layers)

    >>> mean_of_layers(np.array([[1.0, np.nan, 3.0], [2.0, 7.0, 4.0]]))
    (array([2., 3.]), array([ True, False,  True]))
    """
    kept: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=0))
    mean = values[:, kept].mean(axis=1) if kept.any() else np.full(len(values), np.nan)
    return np.asarray(mean, dtype=np.float64), kept


def _square(values: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """(steps * layers,) -> (steps, layers); every step of a series has the same layers"""
    return values.reshape(steps, -1)
