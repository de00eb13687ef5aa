"""What is said of each layer of one population: chosen columns with their errors, and where the layer stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from theodolite.studies.anisotropy.depth import Place, places
from theodolite.studies.surveyed import Surveyed

MEAN_NORM = "mean_norm"
"""|mean| = sqrt(m): no column of the table, but the other half of the drift test."""
Z = 1.96
HEAD = "survey layer layer_name stack depth joined_depth population".split()


def by_layer(survey: Surveyed, population: str, columns: Sequence[str], name: str | None = None) -> pd.DataFrame:
    """Return a row per layer, first to last: HEAD, then each column, its low and its high.

    Low and high are 1.96 standard errors away, NaN where the table tells no error. A column that the table has not
    is NaN throughout.
    """
    rows = survey.layers[survey.layers["population"] == population].sort_values("layer")
    known = places(survey)
    where = [known.get(int(layer), Place("", float("nan"), float("nan"))) for layer in rows["layer"]]
    table = pd.DataFrame(
        {
            "survey": [survey.model if name is None else name] * len(rows),
            "layer": rows["layer"].to_numpy(int),
            "layer_name": rows["layer_name"].to_numpy(object),
            "stack": [place.stack for place in where],
            "depth": np.array([place.depth for place in where], dtype=np.float64),
            "joined_depth": np.array([place.joined_depth for place in where], dtype=np.float64),
            "population": [population] * len(rows),
        }
    )
    for column in columns:
        values, errors = numbers(rows, column), _errors(rows, column)
        table[column] = values
        table[f"{column}_low"], table[f"{column}_high"] = values - Z * errors, values + Z * errors
    return table


def numbers(rows: pd.DataFrame, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a column as float64, NaN for null; `mean_norm` from m."""
    if column == MEAN_NORM:
        return np.sqrt(np.maximum(numbers(rows, "m"), 0.0))  # keeps NaN
    if column not in rows:
        return np.full(len(rows), np.nan)
    return rows[column].to_numpy(np.float64, na_value=np.nan)


def _errors(rows: pd.DataFrame, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if column != MEAN_NORM:
        return numbers(rows, f"{column}_se")
    with np.errstate(divide="ignore", invalid="ignore"):  # the error of a square root
        errors = numbers(rows, "m_se") / (2 * numbers(rows, MEAN_NORM))
    return np.where(np.isfinite(errors), errors, np.nan)
