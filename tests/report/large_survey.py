"""A finished survey folder of a given size, made up by formula: for what a report costs in seconds and bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from theodolite.surveys.folder import open_survey
from theodolite.surveys.survey import Survey

UNITS = ("all", "without-first", "without-massive", "without-sinks")


def write_large_survey(small: Path, out: Path, *, units: int, layers: int) -> Path:
    """Write the survey in `small` again to `out`, with tables of this many units and layers for four populations.

    The sample, the state and the curves are those of the small survey, which must have four populations.
    """
    survey = open_survey(small)
    rng = np.random.default_rng(0)
    keys = np.array([f"unit{number}" for number in range(units)], dtype=object)
    n = np.maximum(1, 5e5 / np.arange(1, units + 1)).astype(np.int64)
    parts = []
    for layer in range(layers):
        for shift, population in enumerate(UNITS):
            m = rng.gamma(8, 2.0, units) * (1 + layer)
            v = np.where(n > 1, np.abs(40.0 * (1 + layer) - 0.8 * m + rng.normal(0, 2, units)), 0.0)
            columns = {"n": n - (shift if shift < 3 else 2) * (n > 9), "q": m + v, "m": m, "v": v}
            parts.append(pd.DataFrame({"layer": layer, "population": population, "unit": keys} | columns))
    tokens = pd.concat(parts, ignore_index=True).reindex(columns=survey.tokens.columns)
    table = pd.DataFrame({"unit": keys, "row": range(units), "id": range(units), "text": keys, "special": False})
    layer_rows = [survey.layers[survey.layers["layer"] == 1].assign(layer=layer) for layer in range(layers)]
    names = {layer: f"block {layer}" for layer in range(layers)}
    every = pd.concat(layer_rows, ignore_index=True)
    tables = replace(
        survey.tables,
        layers=every.assign(layer_name=every["layer"].map(names)),
        tokens=tokens,
        units=table.assign(tokens_per_unit=1.0),
        contexts=_made_up_contexts(keys),
        neighbours=_made_up_neighbours(keys[:2000], layers),
    )
    Survey(survey.facts, tables, survey.state, survey.pilot, norms=survey.norms).save(out)
    return out


def _made_up_contexts(keys: np.ndarray) -> pd.DataFrame:
    units = np.repeat(keys, 3)
    words = "some words of a sentence that is long enough "
    columns = {"document": 0, "window": 0, "position": 7, "before": words, "text": units, "after": words}
    return pd.DataFrame({"unit": units, "key": np.arange(len(units))} | columns)


def _made_up_neighbours(keys: np.ndarray, layers: int, nearest: int = 6) -> pd.DataFrame:
    near = np.concatenate([np.roll(keys, rank) for rank in range(1, nearest + 1)])
    columns = {"population": "without-sinks", "unit": np.tile(keys, nearest)}
    ranks = np.repeat(np.arange(1, nearest + 1), len(keys))
    part = pd.DataFrame(columns | {"rank": ranks, "neighbour": near, "cosine": (1 - 0.1 * ranks).astype("f4")})
    return pd.concat([part.assign(layer=layer) for layer in range(layers)], ignore_index=True)
