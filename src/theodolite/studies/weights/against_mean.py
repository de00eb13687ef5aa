"""Tokens against the mean embedding: how far, how alike, how long."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from theodolite.measures.pair_values import cosines, distances, dots, norms
from theodolite.studies.weights.tables import Tables
from theodolite.studies.weights.units import is_word

METRICS = {
    "distance": "distance",
    "abs_cosine": "|cosine|",
    "abs_dot": "|dot|",
    "cosine": "cosine",
    "dot": "dot",
    "norm": "norm",
}
"""The columns of the thesis' table 3, in its order, and what a panel of its figure 12 calls them."""
HEAD = ("id", "unit", "text")


def token_table(tables: Tables) -> pd.DataFrame:
    """Return a row per token: what it is, its norm, and distance, cosine and dot product to the mean of all rows.

    Rows with a value that is not finite are outside the mean and have NaN.
    """
    vectors = tables.words.numpy()
    finite = np.isfinite(vectors).all(axis=1)
    mean = mean_embedding(tables).numpy()
    found = tables.units.drop(columns="bare").copy()
    found["word"] = _words(tables.units)
    for name, measure in (("norm", None), ("distance", distances), ("cosine", cosines), ("dot", dots)):
        values = np.full(len(vectors), np.nan)
        for rows in np.array_split(np.flatnonzero(finite), max(1, len(vectors) // 4096)):
            given = vectors[rows]
            values[rows] = norms(given) if measure is None else measure(given, np.broadcast_to(mean, given.shape))
        found[name] = values
    found["abs_cosine"], found["abs_dot"] = found["cosine"].abs(), found["dot"].abs()
    return found


def mean_embedding(tables: Tables) -> torch.Tensor:
    """Return the mean of all finite rows of the word table, in float64. (dim,)"""
    finite = torch.isfinite(tables.words).all(dim=1)
    total = torch.zeros(tables.words.shape[1], dtype=torch.float64)
    for block in torch.split(tables.words[finite], 4096):
        total += block.double().sum(dim=0)
    return total / finite.sum()


def mean_extremes(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens of largest and smallest value in each column, among words of three Latin letters or more.

    Of equal ones the first by id. A table without such words gives none.
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
    usual = ~(units["special"] | units["unused"]).to_numpy(bool)
    return [bool(fine and is_word(bare)) for fine, bare in zip(begins & usual, units["bare"], strict=True)]
