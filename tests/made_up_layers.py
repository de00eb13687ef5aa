"""Surveys of which only the table of layers is made up: any kind of model, any number of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.studies.surveyed import Surveyed

POPULATIONS = ("all", "without-first", "without-massive")


def names_of(blocks: int, *, stack: str = "", final_norm: bool = False) -> list[str]:
    """Layer names as a survey has them."""
    names = ["embeddings", *(f"block {number}" for number in range(1, blocks + 1))]
    names += ["final norm"] if final_norm else []
    return [f"{stack} {name}" if stack else name for name in names]


def layered(
    name: str = "tiny",
    names: Sequence[str] | None = None,
    *,
    model: dict[str, Any] | None = None,
    measured: bool = False,
    populations: Sequence[str] = POPULATIONS,
    seed: int = 0,
    **columns: Sequence[float],
) -> Surveyed:
    """Return a survey with random numbers by layer; `columns` are set in every population as they are given.

    `model` adds to survey.json's model; `measured` is a survey of vectors, without one.
    """
    rng = np.random.default_rng(seed)
    known = list(names_of(6) if names is None else names)
    rows = []
    for place, layer in enumerate(known):
        last = place + 1 < len(known) and known[place + 1].endswith("final norm")  # the library gives the norm's
        for population in populations:
            row = {"layer": place, "layer_name": layer, "library_index": None if last else place}
            row |= {"population": population, "massive": 0, "n": 100}
            row |= {"m": float(rng.gamma(2, 30)), "m_se": 0.5, "mean_cosine": float(rng.uniform(0, 0.9))}
            row |= {"mean_cosine_se": 0.01, "anisotropy_svd": float(rng.uniform(0.02, 1))}
            rows.append(row | {column: values[place] for column, values in columns.items()})
    blocks = sum("block" in layer for layer in known)
    facts = {
        "model": None if measured else {"name": name, "sha256": name, "blocks": blocks, **(model or {})},
        "corpus": {"name": name if measured else "notes.txt", "documents": 40},
        "units": "none" if measured else "id",
        "populations": list(populations),
        "layers": [{"index": i, "name": layer, "dim": 4, "library_index": i} for i, layer in enumerate(known)],
    }
    table = pd.DataFrame(rows).astype({"library_index": "Int64"})
    return Surveyed(facts, {"layers": table})
