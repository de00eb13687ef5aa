"""Captions state how many positions a population leaves out at each layer."""

from __future__ import annotations

import pandas as pd
import pytest

from theodolite.exhibits.drawing.captions import describe_population
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

FACTS = {"model": {"name": "m"}, "corpus": {"name": "c", "documents": 3}}


def make(left_out: list[int], population: str = "without-massive", n: int = 1000) -> SurveyData:
    every = pd.DataFrame({"layer": range(len(left_out)), "population": "all", "n": n})
    some = every.assign(population=population, n=[n - count for count in left_out])
    return SurveyData(FACTS, {"layers": pd.concat([every, some], ignore_index=True).astype({"n": "Int64"})})


@pytest.mark.parametrize(
    ("left_out", "sentence"),
    [
        ([7, 7, 7], "Left out: 7 of 1,000 positions of m at every layer."),
        ([0, 0], "Left out: none of 1,000 positions of m."),
        (
            [0, 0, 148, 3, 3],
            "Left out: 0 at layer 0 to 1, 148 at layer 2, 3 at layer 3 to 4, of 1,000 positions of m.",
        ),
        (list(range(12)), "Left out: 0 to 11 of 1,000 positions of m, by layer."),
    ],
)
def test_counts_by_layer(left_out: list[int], sentence: str) -> None:
    caption = describe_population(Choice("without-massive"), [make(left_out)])
    assert caption == f"Population: all positions except massive ones. {sentence}"


def test_all_positions_leave_nothing_out() -> None:
    assert describe_population(Choice(), [make([7])]) == "Population: all positions."


def test_a_population_without_numbers_is_only_named() -> None:
    survey = make([1, 2])
    layers = survey.layers.assign(n=survey.layers["n"].where(survey.layers["population"] == "all"))
    undefined = SurveyData(FACTS, {"layers": layers})
    assert "Left out" not in describe_population(Choice("without-massive"), [undefined])
