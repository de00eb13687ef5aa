"""The table of paths: a row for each token and layer; and of moves: a row for each sentence and layer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from theodolite.measures.path import angle, cosine, radial, shared_direction, step, tangential
from theodolite.studies.trace.trails import Trails

STEPS = "step radial tangential cosine angle".split()
MOVES = "norm step radial tangential cosine angle cosine_first cosine_last".split()


def path_table(trails: Trails) -> pd.DataFrame:
    """Return the path of every token: norm, the step that led here, cosines to the first and the last layer.

    There is no step to the first layer, so its columns are NaN there.
    """
    first, last = trails.at(0), trails.at(len(trails.layers) - 1)
    norms, massive = trails.norms(), trails.massive()
    tables = []
    for place, layer in enumerate(trails.layers):
        here = trails.at(place)
        columns = {
            "norm": norms[place],
            "massive": massive[place],
            "cosine_first": cosine(first, here),
            "cosine_last": cosine(here, last),
        }
        before = trails.at(place - 1) if place else np.full_like(here, np.nan)
        for name, measure in zip(STEPS, (step, radial, tangential, cosine, angle), strict=True):
            columns[name] = measure(before, here) if place else np.full(len(here), np.nan)
        head = {"stack": trails.stack, "layer": layer.index, "layer_name": layer.name}
        where = {"sentence": trails.sentence, "position": trails.position, "special": trails.special}
        tables.append(pd.DataFrame(head | where | columns))
    return pd.concat(tables, ignore_index=True)


def move_table(trails: Trails, path: pd.DataFrame) -> pd.DataFrame:
    """Return each sentence's means over its text at every layer, and how alike its tokens move.

    Special tokens and tokens that are massive anywhere are left out. `radial_share` is the part of the squared
    steps that is radial: sum radial^2 / sum step^2.
    """
    kept = ordinary(trails)
    rows = []
    for number in np.unique(trails.sentence):
        chosen = kept & (trails.sentence == number)
        inside = path[(path["sentence"] == number) & path["position"].isin(trails.position[chosen])]
        for place, layer in enumerate(trails.layers):
            here = inside[inside["layer"] == layer.index]
            squares = np.square(here["step"]).sum()
            rows.append(
                {
                    "stack": trails.stack,
                    "layer": layer.index,
                    "layer_name": layer.name,
                    "sentence": int(number),
                    "tokens": len(here),
                    **{name: float(here[name].mean()) for name in MOVES},
                    "radial_share": float(np.square(here["radial"]).sum() / squares) if squares > 0 else np.nan,
                    "shared_direction": (
                        shared_direction(trails.at(place)[chosen] - trails.at(place - 1)[chosen])
                        if place
                        else np.nan
                    ),
                }
            )
    return pd.DataFrame(rows)


def ordinary(trails: Trails) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Say which tokens are text and massive at no layer. (tokens,)"""
    return ~trails.special & ~trails.massive().any(axis=0)
