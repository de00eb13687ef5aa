"""Tokens compared with the mean embedding: distance, cosine, dot product and norm."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from theodolite.measures.laboratories.table_pairs import cosines, distances, dots, norms
from theodolite.studies.weights.model_tables import ModelTables
from theodolite.studies.weights.vocabulary import is_word

METRICS = {
    "distance": "distance",
    "abs_cosine": "|cosine|",
    "abs_dot": "|dot|",
    "cosine": "cosine",
    "dot": "dot",
    "norm": "norm",
}
"""The columns of table 3 of the thesis in its order, and their labels in its figure 12."""
HEAD = ("id", "unit", "text")


def token_table(tables: ModelTables) -> pd.DataFrame:
    """Return one row per token: its unit, norm, and distance, cosine and dot product with the mean of all rows.

    Rows with values that are not finite are excluded from the mean and have NaN.
    """
    vectors = tables.words.numpy()
    finite = np.isfinite(vectors).all(axis=1)
    mean = mean_embedding(tables).numpy()
    table = tables.units.drop(columns="bare").copy()
    table["word"] = _words(tables.units)
    for name, measure in (("norm", None), ("distance", distances), ("cosine", cosines), ("dot", dots)):
        values = np.full(len(vectors), np.nan)
        for rows in np.array_split(np.flatnonzero(finite), max(1, len(vectors) // 4096)):
            block = vectors[rows]
            values[rows] = norms(block) if measure is None else measure(block, np.broadcast_to(mean, block.shape))
        table[name] = values
    table["abs_cosine"], table["abs_dot"] = table["cosine"].abs(), table["dot"].abs()
    return table


def mean_embedding(tables: ModelTables) -> torch.Tensor:
    """Return the mean of all finite rows of the word table, in float64. (dim,)"""
    finite = torch.isfinite(tables.words).all(dim=1)
    total = torch.zeros(tables.words.shape[1], dtype=torch.float64)
    for block in torch.split(tables.words[finite], 4096):
        total += block.double().sum(dim=0)
    return total / finite.sum()


def mean_extremes(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens with the largest and smallest value in each column.

    Only words of three or more Latin letters are considered. Of equal tokens the first by id is used.
    """
    words = tokens[tokens["word"]]
    rows = []
    for column in METRICS:
        values = words[column].to_numpy()
        if np.isnan(values).all():
            continue
        for which, at in (("largest", np.nanargmax(values)), ("smallest", np.nanargmin(values))):
            row = words.iloc[int(at)]
            rows.append({"metric": column, "which": which} | {name: row[name] for name in (*HEAD, *METRICS)})
    return pd.DataFrame(rows, columns=["metric", "which", *HEAD, *METRICS])


def _words(units: pd.DataFrame) -> list[bool]:
    begins = units["begins"].fillna(True).to_numpy(bool)
    normal = ~(units["special"] | units["unused"]).to_numpy(bool)
    return [bool(start and is_word(bare)) for start, bare in zip(begins & normal, units["bare"], strict=True)]
