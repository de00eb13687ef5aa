"""The drift test of each survey: every population, encoder and decoder apart and joined."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.drift import (
    circular_shifts,
    complete,
    first_differences,
    pearson,
    spearman,
    steps,
)
from theodolite.studies.anisotropy.by_layer import MEAN_NORM, by_layer
from theodolite.studies.anisotropy.kinds import kind
from theodolite.studies.surveyed import Surveyed, labels

TESTS = {"spearman": spearman, "pearson": pearson}
JOINED = "joined"
STATES = ("library", "blocks")
"""`library`: what the model's library returns as hidden states, which the paper took; where a model ends in a
norm, its output may stand there for the last block's. `blocks`: the embeddings and every block as it leaves."""
NUMBERS = [
    name for test in TESTS for name in (test, f"{test}_p", f"{test}_shift_p", f"{test}_step", f"{test}_step_p")
]
COLUMNS = [
    "survey",
    "kind",
    "population",
    "stack",
    "states",
    "layers",
    "steps",
    *NUMBERS,
    "shift_floor",
    "undefined",
]


def drift(surveys: Sequence[Surveyed], populations: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a row per survey, population, stack and choice of states.

    A model of one stack has rows `joined`, an encoder-decoder also `encoder` and `decoder`. `undefined` tells by
    column why a number is NaN (JSON).
    """
    rows: list[dict[str, Any]] = []
    for survey, name in zip(surveys, labels(surveys), strict=True):
        for population in survey.facts["populations"] if populations is None else populations:
            table = _with_library(survey, by_layer(survey, population, [MEAN_NORM, "mean_cosine"], name))
            head = {"survey": name, "kind": kind(survey), "population": population}
            for stack in _stacks(table):
                part = table if stack == JOINED else table[table["stack"] == stack]
                rows += [head | {"stack": stack, "states": s} | tested(states_of(part, s)) for s in STATES]
    return pd.DataFrame(rows, columns=COLUMNS)


def tested(table: pd.DataFrame) -> dict[str, Any]:
    """Return the drift test of layers in their order: coefficients, p-values, and why some are undefined."""
    norms, cosines = table[MEAN_NORM].to_numpy(np.float64), table["mean_cosine"].to_numpy(np.float64)
    stacks = list(table["stack"])
    row: dict[str, Any] = {
        "layers": len(complete(norms, cosines)[0]),
        "steps": len(steps(norms, cosines, stacks)[0]),
    }
    reasons: dict[str, str] = {}
    for name, correlate in TESTS.items():
        found = correlate(norms, cosines)
        shifts = circular_shifts(norms, cosines, correlate)
        between = first_differences(norms, cosines, stacks, correlate)
        row |= {name: found.coefficient, f"{name}_p": found.p, f"{name}_shift_p": shifts.p}
        row |= {f"{name}_step": between.coefficient, f"{name}_step_p": between.p, "shift_floor": shifts.floor}
        if found.reason:
            reasons |= dict.fromkeys((name, f"{name}_p", f"{name}_shift_p", "shift_floor"), found.reason)
        if between.reason:
            reasons |= dict.fromkeys((f"{name}_step", f"{name}_step_p"), between.reason)
    return row | {"undefined": json.dumps(reasons) if reasons else None}


def states_of(table: pd.DataFrame, states: str) -> pd.DataFrame:
    """Return the rows of these states; all rows where the table knows no library's states, as of vectors."""
    if states == "blocks":
        return table[~table["layer_name"].str.endswith("final norm")]
    return table[table["in_library"]] if table["in_library"].any() else table


def _with_library(survey: Surveyed, table: pd.DataFrame) -> pd.DataFrame:
    index = survey.layers.drop_duplicates("layer").set_index("layer").get("library_index")
    known = pd.Series(dtype=bool) if index is None else index.notna()
    return table.assign(in_library=[bool(known.get(layer, False)) for layer in table["layer"]])


def _stacks(table: pd.DataFrame) -> list[str]:
    apart = [stack for stack in dict.fromkeys(table["stack"]) if stack]
    return [JOINED, *apart] if len(apart) > 1 else [JOINED]
