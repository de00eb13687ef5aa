"""Histograms and counts, against numpy on the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.synthetic_surveys import make_survey, remove_units

from theodolite.errors import InputError
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.units import (
    frequency_histogram,
    length_histogram,
    make_count_table,
    make_model_table,
    unit_histogram,
)
from theodolite.studies.survey_data import SurveyData

SURVEY = make_survey().survey


def first_rows() -> np.ndarray:
    return SURVEY.tokens.query("layer == 0 and population == 'all'")["n"].to_numpy()


def test_frequencies_count_every_unit_once() -> None:
    bins = frequency_histogram(SURVEY, Choice())
    logs = np.log10(first_rows())
    assert bins["count"].sum() == len(logs)
    for row in bins.to_dict("records"):
        assert row["count"] == ((logs >= row["low"]) & (logs < row["high"])).sum()
    assert frequency_histogram(SURVEY, Choice(specials="left-out"))["count"].sum() == len(logs) - 2
    assert frequency_histogram(SURVEY, Choice(filter="frequent"))["count"].sum() == (first_rows() >= 10).sum()


def test_no_bin_of_small_counts_is_empty_by_construction() -> None:
    """1, 2, 3 ... 9 occurrences fill the first four bins."""
    edges = np.arange(0, 1.01, 0.25)
    assert (np.histogram(np.log10(np.arange(1, 10)), edges)[0] > 0).all()


@pytest.mark.parametrize("found", [[0, 3, 5, 0, 2], {"1": 3, "2": 5, "4": 2}])
def test_lengths_may_be_listed_or_named(found: object) -> None:
    survey = SurveyData(SURVEY.facts | {"corpus": SURVEY.facts["corpus"] | {"words_histogram": found}})
    assert length_histogram(survey).to_numpy().tolist() == [[0, 0], [1, 3], [2, 5], [3, 0], [4, 2]]


def test_lengths_that_were_not_recorded_are_rejected() -> None:
    with pytest.raises(
        InputError, match=r"`theodolite survey tiny --corpus notes\.txt --out DIR` with this version"
    ):
        length_histogram(make_survey(words=False).survey)


def test_histograms_count_every_unit_and_report_those_out_of_range() -> None:
    rows = SURVEY.tokens.query("layer == 2 and population == 'all'").reset_index(drop=True)
    tables = dict(SURVEY.tables, tokens=SURVEY.tokens.copy())
    massive = SURVEY.tokens.index[SURVEY.tokens["layer"] == 2][5]
    tables["tokens"].loc[massive, ["q", "m"]] = 1e6
    bins = unit_histogram(SurveyData(SURVEY.facts, tables), 2, Choice())
    for name in "qmv":
        part = bins[bins["quantity"] == name]
        assert part["count"].sum() == len(rows)
        assert part["beyond"].sum() == (name != "v")
        edges = [*part["low"], part["high"].iloc[-1]]
        values = rows[name] if name == "v" else rows[name].drop(5)
        inside = values[values < edges[-1]]
        assert part["count"].iloc[:-1].tolist() == np.histogram(inside, edges)[0][:-1].tolist()
    assert bins["high"].max() < 1e3


def test_a_survey_without_units_has_empty_histograms() -> None:
    survey = remove_units(make_survey())
    assert frequency_histogram(survey, Choice())["count"].sum() == 0
    assert unit_histogram(survey, 0, Choice())["count"].sum() == 0


def test_counts_are_of_units_and_vectors() -> None:
    row = make_count_table([SURVEY], ["tiny"], "all").iloc[0]
    n = first_rows()
    assert (row["types"], row["vectors"], row["frequent"], row["special"]) == (60, n.sum(), (n >= 10).sum(), 2)
    assert make_count_table([SURVEY], ["tiny"], "without-first").iloc[0]["vectors"] == n.sum() - 1
    assert make_count_table([remove_units(make_survey())], ["tiny"], "all").iloc[0]["types"] == 0


def test_a_model_is_listed_once() -> None:
    other = make_survey("other", layers=5).survey
    assert make_model_table([SURVEY, other, SURVEY]).to_numpy().tolist() == [
        ["tiny", 3, 5, 22_713_216],
        ["other", 5, 5, 22_713_216],
    ]
