"""The groups of documents on the page: packed numbers are those of the tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

import theodolite
from theodolite.report import Tables
from theodolite.report.page import render
from theodolite.report.payload import build_payload, payload
from theodolite.report.payload.groups import pack_groups
from theodolite.report.payload.pack import to_json, unpack

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


def test_the_number_of_groups_on_the_page_is_bounded(survey: theodolite.Survey) -> None:
    found = pack_groups(Tables.of(survey), most=2)
    assert found is not None
    assert (found["names"], found["left_out"]) == (["a", "b<i>"], 1)
    assert set(found["nearest"]["all"]) <= {-1, 0, 1}


def test_groups_that_take_too_many_bytes_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    tables = Tables.of(theodolite.measure(random.normal(size=(200, 6)), by=[f"g{at % 8}" for at in range(200)]))
    monkeypatch.setattr(payload, "GROUPS", 0.04)
    found = json.loads(build_payload([tables], budget=100_000))["surveys"][0]["groups"]
    assert len(to_json(found)) <= 4_000
    assert 4 <= len(found["names"]) <= 6
    assert len(found["names"]) + found["left_out"] == 8


def test_a_survey_without_groups_has_no_section(survey: theodolite.Survey) -> None:
    plain = theodolite.measure(np.random.default_rng(1).normal(size=(50, 4)))
    assert pack_groups(Tables.of(plain)) is None
    assert 'data-part="groups"' not in render([Tables.of(plain)])
    page = render([Tables.of(survey)])
    assert 'data-part="groups"' in page
    assert "b<i>" not in page
