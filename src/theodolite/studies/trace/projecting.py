"""Paths in a plane: principal components fitted on all points of the paths that are shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.projection import principal
from theodolite.studies.trace.trails import Trails

Mask = NDArray[np.bool_]
AXES = ("x", "y", "z")
ALL, WITHOUT_LAST = "all", "without-last"
EVERY, WITHOUT_MASSIVE, CHOSEN = "all", "without-massive", "chosen"


def project(trails: Trails, chosen: Mask) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return points and the shares of variance they show, for each choice of layers and of tokens.

    Layers: all, and without the last (where there is another). Tokens: all; without those that are massive
    somewhere, which would be the only thing seen; and the chosen few, for which components are fitted anew.
    """
    sets = {EVERY: np.ones_like(chosen), WITHOUT_MASSIVE: ~trails.massive().any(axis=0), CHOSEN: chosen}
    ends = {ALL: len(trails.layers), WITHOUT_LAST: len(trails.layers) - 1}
    points, shares = [], []
    for tokens, mask in sets.items():
        for layers, end in ends.items():
            if end and mask.any():
                made = _points(trails, np.flatnonzero(mask), end)
                head = {"stack": trails.stack, "layers": layers, "tokens": tokens}
                points.append(made[0].assign(**head))
                shares.append(pd.DataFrame({"axis": AXES, "share": made[1]}).assign(**head))
    return pd.concat(points, ignore_index=True), pd.concat(shares, ignore_index=True)


def _points(trails: Trails, tokens: NDArray[np.int64], end: int) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    vectors = np.concatenate([trails.at(place)[tokens] for place in range(end)])
    found = principal(vectors, len(AXES))
    table = pd.DataFrame(
        {
            "layer": np.repeat([layer.index for layer in trails.layers[:end]], len(tokens)),
            "sentence": np.tile(trails.sentence[tokens], end),
            "position": np.tile(trails.position[tokens], end),
            **dict(zip(AXES, found.points.T, strict=True)),
        }
    )
    return table, found.shares
