"""Appendix A's selection, against its definition read word by word."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from tests.synthetic_surveys import make_survey

from theodolite.errors import InputError
from theodolite.studies.norm_variance.token_sets import assign_intervals, draw_counts, find_tokens, select_tokens
from theodolite.studies.norm_variance.units import strip_markers
from theodolite.studies.survey_data import SurveyData


def survey_of(counts: dict[str, int], special: tuple[str, ...] = ("[SEP]",)) -> SurveyData:
    """A survey of these units at one layer; Q, M and V are of no interest here."""
    facts = make_survey().survey.facts
    tokens = pd.DataFrame({"unit": list(counts), "n": list(counts.values())}).assign(layer=0, population="all")
    tokens = tokens.assign(**dict.fromkeys("q m v m_unbiased v_unbiased".split(), 1.0))
    units = pd.DataFrame({"unit": list(counts), "text": [unit.replace("Ġ", " ") for unit in counts]})
    units = units.assign(special=units["unit"].isin(list(special)), tokens_per_unit=1.0)
    return SurveyData(facts, {"tokens": tokens, "units": units})


def zipf(units: int = 900) -> dict[str, int]:
    return {f"word{i}": int(200_000 / (i + 1) ** 1.2) + 1 for i in range(units)} | {"[SEP]": 5_000, "of": 4_000}


def test_every_interval_gives_the_number_of_the_formula() -> None:
    counts = zipf()
    drawn = select_tokens(survey_of(counts), 0)
    can = {u: math.log10(n) for u, n in counts.items() if 1 <= math.log10(n) <= 5 and u not in ("[SEP]", "of")}
    low, high = min(can.values()), max(can.values())
    members: list[set[str]] = [set() for _ in range(10)]
    for unit, value in can.items():
        members[sum(value >= low + (high - low) * r / 10 for r in range(1, 10))].add(unit)
    most = max(map(len, members))
    for r, interval in enumerate(members):
        expected = 2 + math.floor(4 * math.sqrt(len(interval) / most))
        names = set(drawn.loc[drawn["interval"] == r, "unit"])
        assert names <= interval
        assert len(names) == min(expected, len(interval))
    assert drawn["interval"].nunique() == 10
    assert 6 in drawn["interval"].value_counts().to_numpy()  # with the 4 inside the root it would be 4 at most


def test_draws_depend_on_the_seed_not_on_the_order() -> None:
    counts = zipf()
    drawn = select_tokens(survey_of(counts), 0, seed=3)
    backwards = select_tokens(survey_of(dict(reversed(counts.items()))), 0, seed=3)
    assert drawn["unit"].tolist() == backwards["unit"].tolist()
    assert set(drawn["unit"]) != set(select_tokens(survey_of(counts), 0, seed=4)["unit"])


def test_a_draw_is_fair_enough() -> None:
    """Of 12 equals six are drawn: over 100 seeds each about 50 times."""
    survey = survey_of({f"word{i}": 50 for i in range(12)})
    drawn = pd.concat([select_tokens(survey, 0, seed=seed) for seed in range(100)])["unit"].value_counts()
    assert drawn.sum() == 600
    assert drawn.between(50 - 5 * 5, 50 + 5 * 5).all()  # five standard deviations of a binomial
    assert len(drawn) == 12


@pytest.mark.parametrize(
    ("unit", "n"), [("of", 50), ("##of", 50), ("Ġof", 50), ("[SEP]", 50), ("rare", 9), ("often", 100_001)]
)
def test_excluded_units_are_never_drawn(unit: str, n: int) -> None:
    survey = survey_of({"one": 10, "three": 100_000, unit: n})
    assert sorted(select_tokens(survey, 0)["unit"]) == ["one", "three"]


def test_too_few_to_draw_from() -> None:
    with pytest.raises(InputError, match=r"only 1 units .* or name tokens with --unit"):
        select_tokens(survey_of({"one": 10, "of": 20}), 0)


def test_the_integer_root_is_exact() -> None:
    for size in range(1, 300):
        assert draw_counts([size, 300])[0] == 2 + math.floor(4 * math.sqrt(size / 300))
    assert draw_counts([9, 0, 16]) == [5, 2, 6]
    assert assign_intervals(np.array([2.0, 2.0])).tolist() == [0, 0]


def test_by_hand() -> None:
    survey = survey_of({"Ġonce": 7, "once": 30, "##once": 2, "winked": 4, "[SEP]": 9})
    assert find_tokens(survey, 0, ["winked", "once"])["unit"].tolist() == ["winked", "once"]
    assert set(find_tokens(survey, 0, ["Ġonce", "[SEP]"])["unit"]) == {"Ġonce", "[SEP]"}
    with pytest.raises(InputError, match=r"--unit 'wink': the survey of tiny has no such unit\. Did you mean"):
        find_tokens(survey, 0, ["once", "wink"])
    with pytest.raises(InputError, match="at least two different tokens"):
        find_tokens(survey, 0, ["once", "once"])


def test_of_tokens_with_the_same_text_the_most_frequent_is_chosen() -> None:
    survey = survey_of({"Ġonce": 70, "##once": 2, "winked": 4})
    assert "Ġonce" in find_tokens(survey, 0, ["once", "winked"])["unit"].tolist()
    with pytest.raises(InputError, match="are the same unit"):
        find_tokens(survey, 0, ["once", "Ġonce"])
    assert strip_markers("##") == "##"
