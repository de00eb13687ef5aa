"""Synthetic series of checkpoints with random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from tests.synthetic_surveys import make_layer_names

from theodolite.studies.series import Series
from theodolite.studies.series.attention import COLUMNS, MEASURES, POPULATIONS


def make_series(
    name: str = "tiny",
    steps: Sequence[int] = (0, 1, 10, 100, 1000),
    *,
    blocks: int = 4,
    attention: bool = True,
    seed: int = 0,
) -> Series:
    """Return a series with random numbers for every step, layer and population."""
    rng = np.random.default_rng(seed)
    series = Series.of({"name": name, "blocks": blocks, "causal": True}, {"name": "notes.txt", "documents": 40})
    names = make_layer_names(blocks, final_norm=True)
    rows_of_attention = []
    for step in steps:
        rows = [
            {
                "layer": layer,
                "layer_name": layer_name,
                "population": population,
                "n": 100,
                "anisotropy_svd": rng.uniform(0.1, 0.9),
                "mean_cosine": rng.uniform(0, 0.9),
                "twonn": rng.uniform(5, 12),
                "twonn_se": 0.3,
            }
            for layer, layer_name in enumerate(names)
            for population in ("all", "without-first")
        ]
        series.append(step, f"checkpoint-{step}", f"{step:064d}", pd.DataFrame(rows))
        for layer in range(1, blocks + 1):
            for population in POPULATIONS:
                row = {"layer": layer, "layer_name": f"block {layer}", "population": population}
                row |= {"documents": 16, "positions": 900, "heads": 4}
                row |= {measure: rng.uniform(0.1, 0.9) for measure in MEASURES}
                row |= {f"{measure}_se": 0.001 for measure in MEASURES}
                rows_of_attention.append({"step": step} | {column: row.get(column) for column in COLUMNS})
    if attention:
        series.tables["attention"] = pd.DataFrame(rows_of_attention)
        series.notes["attention"] = {"documents": 16, "tokens": 128}
    return series
