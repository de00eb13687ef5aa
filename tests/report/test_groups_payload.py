"""The groups of documents on the page: packed numbers are those of the tables."""

from __future__ import annotations

import numpy as np
import pytest

import theodolite
from theodolite.report import Tables
from theodolite.report.page import render
from theodolite.report.payload import groups as payload
from theodolite.report.payload.groups import pack_groups
from theodolite.report.payload.pack import unpack

SHORT = 2**-15  # relative: numbers of three bytes


@pytest.fixture(scope="module")
def survey() -> theodolite.Survey:
    random = np.random.default_rng(0)
    by = [("b<i>", "a", "a", "c")[at % 4] for at in range(200)]
    return theodolite.measure(random.normal(size=(200, 6)) + 1, by=by)


def test_numbers_are_those_of_the_tables(survey: theodolite.Survey) -> None:
    found = pack_groups(Tables.of(survey))
    assert found is not None
    assert found["names"] == ["a", "b<i>", "c"]
    assert found["documents"] == [100, 50, 50]
    groups = survey.groups[survey.groups["population"] == "all"]
    packed = found["columns"]["all"]
    for name in ("q", "mean_cosine", "effective_rank", "n"):
        np.testing.assert_allclose(unpack(packed[name]), groups[name].to_numpy(np.float64), rtol=SHORT)
    assert [found["names"][at] for at in found["nearest"]["all"]] == groups["nearest"].tolist()
    pairs = unpack(found["pairs"]["all"]["centroid_distance"]).reshape(3, 3)
    np.testing.assert_array_equal(pairs, pairs.T)
    for row in survey.group_differences.query("population == 'all'").itertuples():
        at = [found["names"].index(name) for name in (row.group, row.other)]
        assert pairs[at[0], at[1]] == pytest.approx(row.centroid_distance, rel=SHORT)


def test_the_number_of_groups_on_the_page_is_bounded(
    survey: theodolite.Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload, "MOST_GROUPS", 2)
    found = pack_groups(Tables.of(survey))
    assert found is not None
    assert (found["names"], found["left_out"]) == (["a", "b<i>"], 1)
    assert set(found["nearest"]["all"]) <= {-1, 0, 1}


def test_a_survey_without_groups_has_no_section(survey: theodolite.Survey) -> None:
    plain = theodolite.measure(np.random.default_rng(1).normal(size=(50, 4)))
    assert pack_groups(Tables.of(plain)) is None
    assert 'data-part="groups"' not in render([Tables.of(plain)])
    page = render([Tables.of(survey)])
    assert 'data-part="groups"' in page
    assert "b<i>" not in page
