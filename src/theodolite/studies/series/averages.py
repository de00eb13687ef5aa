"""One step of a series, and averages over layers or blocks at every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.studies.anisotropy.layers import MEAN_NORM, column_values
from theodolite.studies.series.series import ATTENTION, SERIES
from theodolite.studies.survey_data import SurveyData

BLOCKS, WITH_EMBEDDINGS, FINAL_NORM = "blocks", "with-embeddings", "final-norm"
SCOPES = (BLOCKS, WITH_EMBEDDINGS, FINAL_NORM)
"""Only blocks; blocks and embeddings, as in the paper; only the output of the final norm."""
AVERAGE_COLUMNS = "step population scope measure mean se layers".split()
ATTENTION_MEAN_COLUMNS = "survey step population measure mean se blocks documents".split()
DIMENSIONS = ("twonn", "twonn_ml", "twonn_keep20", "twonn_batch", "mle_dim")
"""Measures of the distinct vectors of the sample, which depend on their number."""
COMPARABLE = 0.5
"""Layers with less than this share of the distinct vectors of another are not averaged: there are 256 bytes."""
NOT_MEASURES = ("step", "layer", "positions", "documents", "heads")


def list_steps(survey: SurveyData) -> list[int]:
    """Return the steps of a series, first to last."""
    return [int(each["step"]) for each in survey.facts["steps"]]


def select_step(survey: SurveyData, step: int) -> SurveyData:
    """Return the layers of one step, with the facts of the series."""
    table = survey.tables[SERIES]
    return SurveyData(survey.facts, {"layers": table[table["step"] == step]}, survey.folder)


def average_layers(
    survey: SurveyData, populations: Sequence[str] | None = None, measures: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return one row per population, scope, measure and step.

    The mean is over the `layers` layers where the measure is defined at every step, so that all steps average the
    same layers; NaN if there are none. Dimensions are not averaged over layers with far fewer distinct vectors
    than others (see `find_small_samples`). `se` is the mean of the standard errors of the layers, an upper bound
    for the error of a mean of layers measured on the same text.
    """
    table = survey.tables[SERIES]
    columns = layer_measures(table) if measures is None else list(measures)
    tables = [
        _average(rows, columns, "layers").assign(population=population, scope=scope)
        for population in (survey.facts["populations"] if populations is None else populations)
        for scope, rows in split_by_scope(table[table["population"] == population]).items()
        if len(rows)
    ]
    joined = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return joined.reindex(columns=AVERAGE_COLUMNS)


def find_small_samples(rows: pd.DataFrame) -> dict[str, int]:
    """Return the layers with too few distinct vectors to average their dimension, and the fewest of any step."""
    if "twonn_n" not in rows or not len(rows):
        return {}
    fewest = rows.assign(twonn_n=column_values(rows, "twonn_n")).groupby("layer_name", sort=False)["twonn_n"].min()
    return {str(name): int(n) for name, n in fewest.items() if n < COMPARABLE * fewest.max()}


def layer_measures(table: pd.DataFrame) -> list[str]:
    """Return the columns that are measures: floats that are not standard errors."""
    known = [
        str(column)
        for column in table.columns
        if pd.api.types.is_float_dtype(table[column]) and not str(column).endswith("_se")
    ]
    return [*known, MEAN_NORM]


def split_by_scope(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each scope."""
    names = rows["layer_name"].astype(str)
    first, last = names.str.endswith("embeddings"), names.str.endswith("final norm")
    return {BLOCKS: rows[~first & ~last], WITH_EMBEDDINGS: rows[~last], FINAL_NORM: rows[last]}


def _average(rows: pd.DataFrame, measures: Sequence[str], count: str) -> pd.DataFrame:
    """Return one row per measure and step; the column `count` is the number of layers averaged."""
    ordered = rows.sort_values(["step", "layer"])
    steps = ordered["step"].unique()  # every step of a series has the same layers
    parts = []
    small = ordered["layer_name"].isin(list(find_small_samples(ordered))).to_numpy()
    for measure in measures:
        values = column_values(ordered, measure)
        values = np.where(small, np.nan, values) if measure in DIMENSIONS else values
        mean, kept = mean_over_layers(values.reshape(len(steps), -1))
        errors = column_values(ordered, f"{measure}_se").reshape(len(steps), -1)
        parts.append(
            pd.DataFrame(
                {
                    "step": steps,
                    "measure": measure,
                    "mean": mean,
                    "se": errors[:, kept].mean(axis=1) if kept.any() else np.nan,
                    count: int(kept.sum()),
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def mean_over_layers(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean over the layers that are finite at every step, and a mask of them. (steps, layers)

    >>> mean_over_layers(np.array([[1.0, np.nan, 3.0], [2.0, 7.0, 4.0]]))
    (array([2., 3.]), array([ True, False,  True]))
    """
    kept: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=0))
    mean = values[:, kept].mean(axis=1) if kept.any() else np.full(len(values), np.nan)
    return np.asarray(mean, dtype=np.float64), kept


def average_attention(survey: SurveyData, population: str, name: str | None = None) -> pd.DataFrame:
    """Return one row per measure and step: means over the blocks where the measure is defined at every step.

    There are no rows for a population without attention measures.
    """
    table = survey.tables[ATTENTION]
    rows = table[table["population"] == population]
    if not len(rows):
        return pd.DataFrame(columns=ATTENTION_MEAN_COLUMNS)
    averaged = _average(rows, attention_measures(table), "blocks").assign(
        survey=survey.model if name is None else name,
        population=population,
        documents=int(rows["documents"].max()),
    )
    return averaged.reindex(columns=ATTENTION_MEAN_COLUMNS)


def attention_measures(table: pd.DataFrame) -> list[str]:
    """Return the columns of the attention table that are measures."""
    return [
        str(column)
        for column in table.columns
        if column not in NOT_MEASURES and f"{column}_se" in table and not str(column).endswith("_se")
    ]
