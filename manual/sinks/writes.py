"""Which part of which block makes a sink long, from a survey with `--streams residual,attn,mlp`; no model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from manual.sinks.reading import find_sinks, read_layer
from theodolite.models.layers import RESIDUAL

PARTS = ("attn", "mlp")
Vectors = NDArray[np.float64]


def change_of_norm(before: Vectors, after: Vectors, write: Vectors) -> Vectors:
    """Return how much longer a write makes each state: w·(a + b) / (|a| + |b|). (rows, dim) each -> (rows,)

    Over all writes of a block this adds up to |b| - |a|, since (b - a)·(b + a) = |b|² - |a|².

    >>> before, after = np.array([[3.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> change_of_norm(before, after, after - before)
    array([2.])
    """
    lengths = np.linalg.norm(before, axis=1) + np.linalg.norm(after, axis=1)
    return np.asarray((write * (before + after)).sum(axis=1) / lengths)


def measure_writes(folder: Path) -> pd.DataFrame:
    """Return one row per block, part and sort of sink: how much longer the part makes the state.

    `rest` is what the parts leave: rounding, if a block only adds.
    """
    import theodolite

    survey = theodolite.open(folder)
    facts, layers = survey.facts, survey.layers
    index = {(one.get("block") or one["index"], one.get("stream", RESIDUAL)): one for one in facts["layers"]}
    blocks = sorted({block for block, stream in index if stream in PARTS})
    residual = read_layer(folder, blocks[0], layers)
    chosen = find_sinks(residual.cell)
    sinks = pd.Series(residual.cell[chosen] % 2 == 1, index=residual.key[chosen])
    first = sinks.to_numpy()
    rows: list[dict[str, Any]] = []
    for block in blocks:
        named = index[block, RESIDUAL]["name"]
        before, after = (read_rows(folder, layer, layers, sinks.index) for layer in (block - 1, block))
        parts = {part: read_rows(folder, index[block, part]["index"], layers, sinks.index) for part in PARTS}
        parts["rest"] = after - before - sum(parts.values())
        for part, write in parts.items():
            change = change_of_norm(before, after, write)
            for sort, chosen in (("first", first), ("other sinks", ~first)):
                if chosen.any():
                    low, middle, high = np.quantile(change[chosen], [0.0, 0.5, 1.0])
                    rows.append({
                        "layer": block, "layer_name": named, "part": part, "sort": sort, "n": int(chosen.sum()),
                        "norm_before": np.median(np.linalg.norm(before[chosen], axis=1)),
                        "norm_after": np.median(np.linalg.norm(after[chosen], axis=1)),
                        "change_min": low, "change_p50": middle, "change_max": high,
                    })  # fmt: skip
    return pd.DataFrame(rows)


def read_rows(folder: Path, layer: int, layers: pd.DataFrame, keys: pd.Index) -> Vectors:
    """Return the vectors of some positions at a layer. A layer of another stream has long positions of its own."""
    rows = read_layer(folder, layer, layers)
    return rows.vectors[pd.Series(np.arange(len(rows.key)), index=rows.key).loc[keys]].astype(np.float64)
