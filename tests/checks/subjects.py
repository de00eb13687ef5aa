"""Subjects of a check with known numbers, made without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.checks.subject import COUNTS, SURVEY, Subject
from theodolite.measures.resampling import group_error


def make_subject(
    values: dict[str, NDArray[np.float64]], *, corpus: str = "one", name: str = "run", **columns: Any
) -> Subject:
    """Return a survey whose columns are means over groups of documents. values: by column (layers, groups)"""
    layers, groups = next(iter(values.values())).shape
    rows: list[dict[str, Any]] = [
        {"layer": layer, "layer_name": f"block {layer}", "population": "all"} for layer in range(layers)
    ]
    jackknife = []
    for column, by_group in values.items():
        without = (by_group.sum(axis=1, keepdims=True) - by_group) / (groups - 1)
        for layer in range(layers):
            rows[layer] |= {column: by_group[layer].mean(), f"{column}_se": float(group_error(without[layer]))}
            jackknife += [(layer, "all", column, group, value) for group, value in enumerate(without[layer])]
    for column, given in columns.items():
        for layer in range(layers):
            rows[layer][column] = given[layer]
    tables = {
        "layers": pd.DataFrame(rows),
        "jackknife": pd.DataFrame(jackknife, columns="layer population column group value".split()),
    }
    facts = {
        "model": {"name": "tiny", "architecture": "Tiny", "sha256": "a"},
        "corpus": {"name": corpus, "documents": 100},
        "identity": {"corpus": {"sha256": corpus}},
        "counts": {"positions": 1000},
        "units": "id",
        "populations": ["all"],
        "layers": [{"index": layer, "name": f"block {layer}", "dim": 8} for layer in range(layers)],
        "files": {},
    }
    return Subject(SURVEY, name, f"tiny on {corpus}", facts, (COUNTS, *tables), tables.__getitem__)


def draw(rng: np.random.Generator, layers: int = 3, groups: int = 20, shift: float = 0.0) -> NDArray[np.float64]:
    """Return numbers of groups about 10 + shift with a standard deviation of 1; those of layers are alike."""
    common = rng.normal(size=(1, groups))
    return 10 + shift + 0.8 * common + 0.6 * rng.normal(size=(layers, groups))
