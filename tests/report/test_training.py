from __future__ import annotations

import math

import numpy as np
import pandas as pd

from theodolite.report import Tables
from theodolite.report.findings import Finding
from theodolite.report.findings.training import (
    StepMean,
    average_over_blocks,
    find_training_changes,
    find_turning_points,
    is_series,
)

STEPS = [0, 10, 100, 1000]


def series(**columns: list[float]) -> Tables:
    """A series of two blocks between embeddings and a final norm; every layer has the same value at a step."""
    names = ["embeddings", "block 1", "block 2", "final norm"]
    rows = [
        {"step": step, "layer": layer, "layer_name": name, "population": "all", "n": 100, "dim": 8}
        | {column: values[i] for column, values in columns.items()}
        for i, step in enumerate(STEPS)
        for layer, name in enumerate(names)
    ]
    return Tables("tiny on notes", {}, pd.DataFrame(rows), pd.DataFrame(), pd.DataFrame())


def findings_by_key(tables: Tables) -> dict[str, Finding]:
    return {one.column: one for one in find_training_changes(tables)}


def test_a_rise_and_fall_is_reported_with_errors() -> None:
    found = findings_by_key(series(twonn=[5.0, 9.0, 12.0, 7.0], twonn_se=[0.2, 0.2, 0.3, 0.2]))["twonn"]
    assert found.text == (
        "The intrinsic dimension (TwoNN), the mean over 2 layers, was 5 ± 0.2 at step 0, rose to 12 ± 0.3 at step "
        "100, then fell to 7 ± 0.2 at step 1,000."
    )
    assert (found.figure, found.chart, found.formula) == ("5 → 7", "steps", "twonn/keep90")


def test_changes_within_the_error_are_not_reported() -> None:
    text = findings_by_key(series(mean_cosine=[0.3, 0.32, 0.29, 0.31], mean_cosine_se=[0.02] * 4))[
        "mean_cosine"
    ].text
    assert text.endswith("was 0.3 ± 0.02 at step 0 and did not change by more than its standard error afterwards.")


def test_without_errors_changes_below_five_percent_are_ignored() -> None:
    text = findings_by_key(series(effective_rank=[100.0, 103.0, 98.0, 101.0]))["effective_rank"].text
    assert text.endswith("did not change by more than 5% afterwards.")
    text = findings_by_key(series(effective_rank=[100.0, 50.0, 20.0, 60.0]))["effective_rank"].text
    assert (
        "fell to 20 at step 100, then rose to 60 at step 1,000. It has no standard error; a change below 5%"
        in text
    )


def test_means_are_over_blocks_that_are_defined_at_every_step() -> None:
    tables = series(mean_cosine=[0.1, 0.2, 0.3, 0.4])
    layers = tables.layers.copy()
    layers.loc[layers["layer_name"].isin(["embeddings", "final norm"]), "mean_cosine"] = 0.99
    layers.loc[(layers["layer"] == 2) & (layers["step"] == 10), "mean_cosine"] = np.nan
    curve, of = average_over_blocks(Tables("t", {}, layers, pd.DataFrame(), pd.DataFrame()), "all", "mean_cosine")
    # The naive mean over what there is would jump at step 10, where block 2 is missing, and mix in 0.99.
    assert [(moment.step, moment.value) for moment in curve] == [(0, 0.1), (10, 0.2), (100, 0.3), (1000, 0.4)]
    assert of == 1
    assert all(math.isnan(moment.error) for moment in curve)


def test_massive_activations_that_cause_the_last_value_are_named() -> None:
    whole = series(anisotropy_svd=[0.1, 0.2, 0.5, 0.9])
    rest = whole.layers.assign(population="without-massive")
    rest.loc[rest["step"] == 1000, "anisotropy_svd"] = 0.15
    both = Tables("t", {}, pd.concat([whole.layers, rest]), pd.DataFrame(), pd.DataFrame())
    assert "Without massive activations it is 0.15 at step 1,000" in findings_by_key(both)["anisotropy_svd"].text


def test_turning_points_differ_from_both_sides() -> None:
    def at(*values: float) -> list[float]:
        return [
            moment.step
            for moment in find_turning_points([StepMean(i, value, 0.1) for i, value in enumerate(values)])
        ]

    assert at(1, 2, 3, 4) == [0, 3]
    assert at(1, 4, 3.9, 3.95) == [0, 3]  # a top from which it hardly fell
    assert at(1, 5, 0, 3) == [0, 1, 2, 3]
    assert at(1) == [0]


def test_one_step_or_none_has_no_findings() -> None:
    tables = series(mean_cosine=[0.1, 0.2, 0.3, 0.4])
    one = Tables("t", {}, tables.layers[tables.layers["step"] == 0], pd.DataFrame(), pd.DataFrame())
    assert is_series(one)
    assert find_training_changes(one) == []
    survey = Tables("t", {}, tables.layers.drop(columns="step"), pd.DataFrame(), pd.DataFrame())
    assert not is_series(survey)
    assert find_training_changes(survey) == []
    empty = Tables("t", {}, tables.layers.head(0), pd.DataFrame(), pd.DataFrame())
    assert find_training_changes(empty) == []
