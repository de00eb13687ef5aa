"""Appendix I against its own definition: z from the vectors, every sum written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.synthetic_surveys import DIM, SPECIAL, add_norms, make_survey

from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.layer_norm import (
    NO_NORM,
    NO_VECTORS,
    layers_with_norms,
    normalised_coordinates,
    predict_q,
    q_spread,
)
from theodolite.studies.survey_data import SurveyData

EXACT = 1e-12
MADE = add_norms()


def normed(layer: int) -> tuple[np.ndarray, np.ndarray]:
    norms = MADE.survey.tables["layer_norms"]
    rows = norms[norms["layer"] == layer]
    return rows["gamma"].to_numpy(), rows["beta"].to_numpy()


@pytest.mark.parametrize("population", ["all", "without-first"])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_prediction_and_its_neglected_terms(layer: int, population: str) -> None:
    gamma, beta = normed(layer)
    x = np.concatenate(list(MADE.vectors[layer, population].values()))
    z = (x - beta) / gamma
    row = predict_q(MADE.survey, population).set_index("layer").loc[layer]
    square = sum(gamma[i] ** 2 * ((z[:, i] ** 2).mean() - 1) for i in range(DIM))
    mean = sum(2 * beta[i] * gamma[i] * z[:, i].mean() for i in range(DIM))
    q = (x**2).sum(axis=1).mean()
    assert row["predicted_q"] == pytest.approx(sum(gamma**2) + sum(beta**2), rel=EXACT)
    assert row["dropped_square"] == pytest.approx(square, rel=1e-10)
    assert row["dropped_mean"] == pytest.approx(mean, rel=1e-10)
    assert row["measured_q"] == pytest.approx(q, rel=EXACT)
    assert row["predicted_q"] + row["dropped_square"] + row["dropped_mean"] == pytest.approx(q, rel=1e-10)
    assert row["ratio"] == pytest.approx(q / row["predicted_q"], rel=EXACT)
    assert row["z_mean_rms"] == pytest.approx(np.sqrt((z.mean(axis=0) ** 2).mean()), rel=1e-10)
    assert row["z_square_sd"] == pytest.approx((z**2).mean(axis=0).std(), rel=1e-10)
    assert row["z_square_max"] == pytest.approx((z**2).mean(axis=0).max(), rel=1e-10)
    assert (row["norm"], row["reason"]) == ("LayerNorm", "")


def test_by_coordinate() -> None:
    gamma, beta = normed(1)
    z = (np.concatenate(list(MADE.vectors[1, "all"].values())) - beta) / gamma
    found = normalised_coordinates(MADE.survey, 1)
    assert found["coordinate"].tolist() == list(range(DIM))
    assert found["z_mean"].to_numpy() == pytest.approx(z.mean(axis=0), rel=1e-10)
    assert found["z_square"].to_numpy() == pytest.approx((z**2).mean(axis=0), rel=1e-10)


def test_a_state_without_a_norm_has_a_reason() -> None:
    row = predict_q(MADE.survey).set_index("layer").loc[2]
    assert row["reason"] == NO_NORM
    assert pd.isna(row["norm"])
    assert np.isnan(row["predicted_q"])
    assert row["measured_q"] == pytest.approx(MADE.survey.layers["q"][4], rel=EXACT)
    assert len(normalised_coordinates(MADE.survey, 2)) == 0
    assert layers_with_norms(MADE.survey) == [0, 1]


def test_an_rms_norm_predicts_gamma_only() -> None:
    made = add_norms(leaving={2: "RMSNorm"}, placement="pre")
    row = predict_q(made.survey).set_index("layer").loc[2]
    norms = made.survey.tables["layer_norms"]
    assert row["predicted_q"] == pytest.approx((norms["gamma"] ** 2).sum(), rel=EXACT)
    assert row["beta2"] == row["dropped_mean"] == 0
    assert layers_with_norms(made.survey) == [2]


def test_normed_vectors_meet_the_prediction() -> None:
    rng = np.random.default_rng(0)
    h = rng.normal(size=(20_000, 64))
    z = (h - h.mean(1, keepdims=True)) / h.std(1, keepdims=True)
    gamma, beta = rng.normal(1, 0.2, 64), rng.normal(0, 0.2, 64)
    row = predict_q(_of(gamma * z + beta, gamma, beta)).iloc[0]
    assert row["ratio"] == pytest.approx(1, abs=0.01)
    assert row["z_mean_rms"] < 0.02
    assert row["z_square_sd"] < 0.03


def test_a_large_coordinate_with_gamma_0_is_reported() -> None:
    rng = np.random.default_rng(1)
    h = rng.normal(size=(4000, 32))
    h[:, 5] += 40
    z = (h - h.mean(1, keepdims=True)) / h.std(1, keepdims=True)
    gamma, beta = np.ones(32), np.zeros(32)
    gamma[5] = 1e-30
    row = predict_q(_of(gamma * z + beta, gamma, beta)).iloc[0]
    assert row["tiny_gammas"] == 1
    assert row["unseen"] == pytest.approx((z[:, 5] ** 2).mean() / 32, rel=1e-9)
    assert row["ratio"] < 0.1
    assert np.isfinite(row["z_square_max"])
    words = _of(gamma * z + beta, gamma, beta, kind="word")
    assert np.isnan(predict_q(words).iloc[0]["unseen"])  # a mean of several tokens has no fixed |z|


def _of(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, kind: str = "id") -> SurveyData:
    place = {"layer": 0, "population": "all"}
    own = {"coordinate": range(len(gamma)), "mu_i": x.mean(0), "v_i": x.var(0)}
    norms = {
        "layer": 0,
        "coordinate": range(len(gamma)),
        "kind": "LayerNorm",
        "eps": 0.0,
        "gamma": gamma,
        "beta": beta,
    }
    tables = {
        "layers": pd.DataFrame([place | {"q": (x**2).sum(1).mean()}]),
        "coordinates": pd.DataFrame(own).assign(**place),
        "layer_norms": pd.DataFrame(norms),
    }
    facts = {"model": {"name": "one"}, "units": kind, "layers": [{"index": 0, "name": "embeddings"}]}
    return SurveyData(facts, tables)


def test_a_population_that_is_not_in_the_table() -> None:
    tables = MADE.survey.tables
    kept = tables["coordinates"][tables["coordinates"]["population"] == "all"]
    row = predict_q(SurveyData(MADE.survey.facts, tables | {"coordinates": kept}), "without-first").iloc[0]
    assert row["reason"] == NO_VECTORS
    assert row["predicted_q"] > 0
    assert np.isnan(row["dropped_square"])


@pytest.mark.parametrize("specials", ["kept", "left-out"])
def test_the_spread_of_q_by_frequency(specials: str) -> None:
    found = q_spread(MADE.survey, 1, Choice(specials=specials))
    first = None
    for row in found.to_dict("records"):
        inside = [
            x
            for unit, x in MADE.vectors[1, "all"].items()
            if row["low"] <= np.log10(len(x)) < row["high"] and (specials == "kept" or unit not in SPECIAL)
        ]
        assert row["units"] == len(inside)
        if len(inside) < 3:
            assert np.isnan(row["q_sd"])
            continue
        q, n = [(x**2).sum(axis=1).mean() for x in inside], float(np.median([len(x) for x in inside]))
        first = first or (np.std(q), n)
        assert row["q_sd"] == pytest.approx(np.std(q), rel=1e-9)
        assert row["q_mean"] == pytest.approx(np.mean(q), rel=1e-9)
        assert row["n"] == n
        assert row["root_n"] == pytest.approx(first[0] * np.sqrt(first[1] / n), rel=1e-9)
    assert found["units"].sum() == 60 - 2 * (specials == "left-out")


def test_no_units_have_no_spread() -> None:
    tokens = MADE.survey.tokens.iloc[:0]
    empty = SurveyData(MADE.survey.facts, MADE.survey.tables | {"tokens": tokens})
    assert q_spread(empty, 0, Choice()).empty
    assert q_spread(add_norms(make_survey(units=2)).survey, 0, Choice())["root_n"].isna().all()
