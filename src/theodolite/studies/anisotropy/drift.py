"""The drift test: whether the mean cosine follows the norm of the mean, by survey, population and stack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.drift import (
    circular_shifts,
    drop_undefined,
    first_differences,
    layer_steps,
    pearson,
    permutation_p,
    spearman,
)
from theodolite.studies.anisotropy.layers import MEAN_NORM, survey_kind, tabulate_layers
from theodolite.studies.survey_data import SurveyData, make_labels

TESTS = {"spearman": spearman, "pearson": pearson}
JOINED = "joined"
STATES = ("library", "blocks")
"""`library`: the hidden states that the model's library returns, as in the paper; if a model ends in a norm, the
last of them may be the output of the norm. `blocks`: the embeddings and the output of every block."""
ENDINGS = ("", "_p", "_exact_p", "_shift_p", "_step", "_step_p", "_step_exact_p")
NUMBERS = [f"{test}{ending}" for test in TESTS for ending in ENDINGS]
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


def compute_drift(surveys: Sequence[SurveyData], populations: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per survey, population, stack and choice of states.

    A model with one stack has rows `joined`, an encoder-decoder also `encoder` and `decoder`. `undefined` gives
    the reason by column why a number is NaN (JSON).
    """
    rows: list[dict[str, Any]] = []
    for survey, name in zip(surveys, make_labels(surveys), strict=True):
        for population in survey.facts["populations"] if populations is None else populations:
            table = _mark_library_states(
                survey, tabulate_layers(survey, population, [MEAN_NORM, "mean_cosine"], name)
            )
            head = {"survey": name, "kind": survey_kind(survey), "population": population}
            for stack in _stacks(table):
                part = table if stack == JOINED else table[table["stack"] == stack]
                rows += [
                    head | {"stack": stack, "states": s} | run_drift_tests(select_states(part, s)) for s in STATES
                ]
    return pd.DataFrame(rows, columns=COLUMNS)


def run_drift_tests(table: pd.DataFrame) -> dict[str, Any]:
    """Return the drift test of layers in their order: coefficients, p-values, and reasons for undefined ones."""
    norms, cosines = table[MEAN_NORM].to_numpy(np.float64), table["mean_cosine"].to_numpy(np.float64)
    stacks = list(table["stack"])
    row: dict[str, Any] = {
        "layers": len(drop_undefined(norms, cosines)[0]),
        "steps": len(layer_steps(norms, cosines, stacks)[0]),
    }
    reasons: dict[str, str] = {}
    for name, correlate in TESTS.items():
        correlation = correlate(norms, cosines)
        shifts = circular_shifts(norms, cosines, correlate)
        between = first_differences(norms, cosines, stacks, correlate)
        exact = permutation_p(norms, cosines, correlate)
        exact_between = permutation_p(*layer_steps(norms, cosines, stacks), correlate)
        row |= {name: correlation.coefficient, f"{name}_p": correlation.p, f"{name}_shift_p": shifts.p}
        row |= {f"{name}_step": between.coefficient, f"{name}_step_p": between.p, "shift_floor": shifts.floor}
        row |= {f"{name}_exact_p": exact.p, f"{name}_step_exact_p": exact_between.p}
        if correlation.reason:
            reasons |= dict.fromkeys((name, f"{name}_p", f"{name}_shift_p", "shift_floor"), correlation.reason)
        if between.reason:
            reasons |= dict.fromkeys((f"{name}_step", f"{name}_step_p"), between.reason)
        if exact.reason:
            reasons[f"{name}_exact_p"] = exact.reason
        if exact_between.reason:
            reasons[f"{name}_step_exact_p"] = between.reason or exact_between.reason
    return row | {"undefined": json.dumps(reasons) if reasons else None}


def select_states(table: pd.DataFrame, states: str) -> pd.DataFrame:
    """Return the rows of these states; all rows if the survey has no library states (vectors without a model)."""
    if states == "blocks":
        return table[~table["layer_name"].str.endswith("final norm")]
    return table[table["in_library"]] if table["in_library"].any() else table


def _mark_library_states(survey: SurveyData, table: pd.DataFrame) -> pd.DataFrame:
    index = survey.layers.drop_duplicates("layer").set_index("layer").get("library_index")
    known = pd.Series(dtype=bool) if index is None else index.notna()
    return table.assign(in_library=[bool(known.get(layer, False)) for layer in table["layer"]])


def _stacks(table: pd.DataFrame) -> list[str]:
    stacks = [stack for stack in dict.fromkeys(table["stack"]) if stack]
    return [JOINED, *stacks] if len(stacks) > 1 else [JOINED]
