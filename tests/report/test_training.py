from __future__ import annotations

import math

import numpy as np
import pandas as pd

from theodolite.report import Tables
from theodolite.report.findings import Finding
from theodolite.report.findings.training import Moment, is_series, over_steps, training, turns

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


def told(tables: Tables) -> dict[str, Finding]:
    return {one.column: one for one in training(tables)}


def test_a_rise_and_fall_is_told_with_its_errors() -> None:
    found = told(series(twonn=[5.0, 9.0, 12.0, 7.0], twonn_se=[0.2, 0.2, 0.3, 0.2]))["twonn"]
    assert found.text == (
        "The intrinsic dimension (TwoNN), the mean over 2 layers, was 5 ± 0.2 at step 0, rose to 12 ± 0.3 at step "
        "100, then fell to 7 ± 0.2 at step 1,000."
    )
    assert (found.figure, found.chart, found.formula) == ("5 → 7", "steps", "twonn/keep90")


def test_what_stays_within_its_error_did_not_move() -> None:
    text = told(series(mean_cosine=[0.3, 0.32, 0.29, 0.31], mean_cosine_se=[0.02] * 4))["mean_cosine"].text
    assert text.endswith("began at 0.3 ± 0.02 at step 0 and did not move by more than its error.")


def test_without_error_bars_a_change_is_five_percent_and_that_is_said() -> None:
    text = told(series(effective_rank=[100.0, 103.0, 98.0, 101.0]))["effective_rank"].text
    assert text.endswith("did not move by more than that. It has no error bar; less than 5% is no change.")
    text = told(series(effective_rank=[100.0, 50.0, 20.0, 60.0]))["effective_rank"].text
    assert "fell to 20 at step 100, then rose to 60 at step 1,000. It has no error bar" in text


def test_means_are_over_blocks_that_tell_it_at_every_step() -> None:
    tables = series(mean_cosine=[0.1, 0.2, 0.3, 0.4])
    layers = tables.layers.copy()
    layers.loc[layers["layer_name"].isin(["embeddings", "final norm"]), "mean_cosine"] = 0.99
    layers.loc[(layers["layer"] == 2) & (layers["step"] == 10), "mean_cosine"] = np.nan
    curve, of = over_steps(Tables("t", {}, layers, pd.DataFrame(), pd.DataFrame()), "all", "mean_cosine")
    # The naive mean over what there is would jump at step 10, where block 2 is missing, and mix in 0.99.
    assert [(moment.step, moment.value) for moment in curve] == [(0, 0.1), (10, 0.2), (100, 0.3), (1000, 0.4)]
    assert of == 1
    assert all(math.isnan(moment.error) for moment in curve)


def test_massive_activations_that_make_the_end_are_named() -> None:
    whole = series(anisotropy_svd=[0.1, 0.2, 0.5, 0.9])
    rest = whole.layers.assign(population="without-massive")
    rest.loc[rest["step"] == 1000, "anisotropy_svd"] = 0.15
    both = Tables("t", {}, pd.concat([whole.layers, rest]), pd.DataFrame(), pd.DataFrame())
    assert "Without massive activations it is 0.15 at step 1,000" in told(both)["anisotropy_svd"].text


def test_turns_must_stand_out_on_both_sides() -> None:
    def at(*values: float) -> list[float]:
        return [moment.step for moment in turns([Moment(i, value, 0.1) for i, value in enumerate(values)])]

    assert at(1, 2, 3, 4) == [0, 3]
    assert at(1, 4, 3.9, 3.95) == [0, 3]  # a top from which it hardly fell
    assert at(1, 5, 0, 3) == [0, 1, 2, 3]
    assert at(1) == [0]


def test_one_step_or_none_say_nothing() -> None:
    tables = series(mean_cosine=[0.1, 0.2, 0.3, 0.4])
    one = Tables("t", {}, tables.layers[tables.layers["step"] == 0], pd.DataFrame(), pd.DataFrame())
    assert is_series(one)
    assert training(one) == []
    survey = Tables("t", {}, tables.layers.drop(columns="step"), pd.DataFrame(), pd.DataFrame())
    assert not is_series(survey)
    assert training(survey) == []
    empty = Tables("t", {}, tables.layers.head(0), pd.DataFrame(), pd.DataFrame())
    assert training(empty) == []
