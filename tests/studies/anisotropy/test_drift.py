"""The drift test of surveys: which layers it takes, encoder and decoder apart and joined."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from tests.synthetic_surveys import make_layer_names, make_layer_survey

from theodolite.studies.anisotropy.drift import COLUMNS, NUMBERS, compute_drift
from theodolite.studies.survey_data import SurveyData

T5 = make_layer_survey(
    "t5", make_layer_names(5, stack="encoder", final_norm=True) + make_layer_names(4, stack="decoder"), seed=4
)


def of(survey: SurveyData, population: str = "all") -> tuple[np.ndarray, np.ndarray, list[str]]:
    rows = survey.layers[survey.layers["population"] == population]
    return np.sqrt(rows["m"].to_numpy()), rows["mean_cosine"].to_numpy(), list(rows["layer_name"])


def test_a_row_for_every_survey_population_stack_and_choice_of_states() -> None:
    found = compute_drift([make_layer_survey("bert"), T5])
    assert list(found.columns) == COLUMNS
    assert len(found) == 3 * 2 * (1 + 3)
    keys = ["survey", "population", "stack", "states"]
    assert not found.duplicated(keys).any()
    assert set(found.query("survey == 't5'")["stack"]) == {"joined", "encoder", "decoder"}
    assert compute_drift([T5], ["all"])["population"].eq("all").all()
    assert compute_drift([]).empty


@pytest.mark.parametrize("stack", ["joined", "encoder", "decoder"])
@pytest.mark.parametrize("population", ["all", "without-first"])
def test_numbers_equal_scipy(stack: str, population: str) -> None:
    norms, cosines, names = of(T5, population)
    # The library gives the encoder's final norm for its last block.
    kept = np.array(
        [name != "encoder block 5" and (stack == "joined" or name.startswith(stack)) for name in names]
    )
    rows = compute_drift([T5]).set_index(["population", "stack", "states"])
    row = rows.loc[(population, stack, "library")]
    assert row["layers"] == kept.sum()
    for test, scipy_test in (("spearman", spearmanr), ("pearson", pearsonr)):
        expected = scipy_test(norms[kept], cosines[kept])
        assert row[[test, f"{test}_p"]].tolist() == pytest.approx([expected.statistic, expected.pvalue])
    assert row["steps"] == kept.sum() - (2 if stack == "joined" else 1)
    assert row["shift_floor"] == pytest.approx(1 / kept.sum())
    blocks = np.array(["final norm" not in name and (stack == "joined" or stack in name) for name in names])
    expected = spearmanr(norms[blocks], cosines[blocks])
    assert rows.loc[(population, stack, "blocks"), "spearman"] == pytest.approx(expected.statistic)


def test_vectors_without_library_states_use_all_rows() -> None:
    found = make_layer_survey("v.npy", ["vectors"] * 4, measured=True)
    found.tables["layers"]["library_index"] = None
    (row,) = compute_drift([found], ["all"]).query("states == 'library'").to_dict("records")
    assert (row["layers"], row["kind"]) == (4, "vectors")
    old = SurveyData(found.facts, {"layers": found.layers.drop(columns="library_index")})
    assert compute_drift([old], ["all"])["layers"].tolist() == [4, 4]


def test_undefined_numbers_have_a_reason() -> None:
    one, flat = make_layer_survey("one", ["embeddings"]), make_layer_survey("flat", m=[4.0] * 7)
    empty = make_layer_survey("empty", m=[None] * 7)  # as in a population that holds no position
    for survey, words in (
        (one, "fewer than three layers"),
        (flat, "constant"),
        (empty, "fewer than three layers"),
    ):
        for row in compute_drift([survey]).to_dict("records"):
            assert np.isnan([row[name] for name in [*NUMBERS, "shift_floor"]]).all()
            reasons = json.loads(row["undefined"])
            assert set(reasons) == {*NUMBERS, "shift_floor"}
            assert words in reasons["spearman_p"]
    assert compute_drift([make_layer_survey()])["undefined"].isna().all()
