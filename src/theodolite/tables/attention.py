"""attention.parquet: logits, entropy and the weight of sinks, one row per block, head and population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.measures.attention_logits import logit_quantiles, mean_entropy, sink_mass
from theodolite.measures.columns import column_names, integer_columns
from theodolite.models.layers import Layer
from theodolite.state.state import State
from theodolite.statistics.attention import Attention

COLUMNS, INTEGERS = column_names("attention"), integer_columns("attention")
PARTS = {"all": slice(0, 2), "without-first": slice(0, 1)}
"""The parts of the queries in each population: queries after the first position of their window, and at it."""
TOP = {"all": 1, "without-first": 0}
"""Which of the two means over windows belongs to each population."""


def attention_table(
    state: State | None = None, layers: Sequence[Layer] = (), populations: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the table of the blocks whose attention was measured; without rows if there are none."""
    rows: list[dict[str, Any]] = []
    for layer in layers:
        measured = state.folds[layer.index].attention if state is not None else None
        for population in (name for name in populations if measured is not None and name in PARTS):
            head = {"layer": layer.index, "layer_name": layer.name, "population": population}
            rows += [head | row for row in _rows(measured, population)]
    text = ("layer_name", "population")
    types = {name: "int64" if name in INTEGERS else "float64" for name in COLUMNS if name not in text}
    return pd.DataFrame(rows, columns=COLUMNS).astype(types | dict.fromkeys(text, "str"))


def _rows(measured: Attention | None, population: str) -> list[dict[str, Any]]:
    assert measured is not None
    part, sums = PARTS[population], {name: tensor.numpy() for name, tensor in measured.sums.items()}
    queries, choices = (int(sums[name][part].sum()) for name in ("queries", "choices"))
    windows = int(sums["windows"][TOP[population]])
    entropy = mean_entropy(sums["entropy"][part].sum(0), sums["entropy_share"][part].sum(0), queries, choices)
    mass = sink_mass(sums["first_mass"][part].sum(0), sums["top_mass"][TOP[population]], queries, windows)
    counts, low, high = sums["counts"][part].sum(0), sums["lowest"][part].min(0), sums["highest"][part].max(0)
    return [
        {"head": head, "n": queries, "windows": windows, "pairs": int(counts[head].sum())}
        | logit_quantiles(counts[head], float(low[head]), float(high[head]))
        | {"entropy": entropy[0][head], "entropy_share": entropy[1][head]}
        | {"first_mass": mass[0][head], "top_mass": mass[1][head]}
        for head in range(len(counts))
    ]
