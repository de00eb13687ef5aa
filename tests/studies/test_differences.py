"""Differences between layers and surveys of the same documents, and their intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.small_models import make, sentences

import theodolite
from theodolite.exhibits.compare import compare
from theodolite.measures.uncertainty import jackknife
from theodolite.studies.choice import Choice
from theodolite.studies.differences import add_differences, share_documents
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData

TABLES = ("layers", "jackknife")
MEASURES = ("mean_cosine", "v_within", "norm_of_mean")


@pytest.fixture(scope="module")
def surveys(tmp_path_factory: pytest.TempPathFactory) -> list[SurveyData]:
    """Two models on the same documents, and one of them on other documents."""
    root = tmp_path_factory.mktemp("differences")
    models = [make("bert", root / f"model{seed}", seed=seed) for seed in (1, 2)]
    read = {"one": (models[0], 0), "two": (models[1], 0), "other": (models[1], 7)}
    for name, (model, seed) in read.items():
        theodolite.survey(model, sentences(150, seed=seed), out=root / name, sample_size=64)
    return [read_survey_data(root / name, TABLES) for name in read]


def values(survey: SurveyData, layer: int, column: str) -> np.ndarray[Any, Any]:
    table = survey.tables["jackknife"]
    rows = table[(table["layer"] == layer) & (table["population"] == "all") & (table["column"] == column)]
    return rows.sort_values("group")["value"].to_numpy()


def error(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    return float(jackknife(len(a), lambda group: np.array([b[group] - a[group]]))[0])


def test_the_spread_of_the_table_is_the_error_in_the_table_of_layers(surveys: list[SurveyData]) -> None:
    layers = surveys[0].layers.query("population == 'all'").set_index("layer")
    columns = surveys[0].tables["jackknife"]["column"].unique()
    assert {"q", "v_within", "text_v_between", "unfiltered_text_m_of_q", "mean_cosine"} <= set(columns)
    for layer in layers.index:
        for column in columns:
            found = values(surveys[0], layer, column)
            expected = layers.loc[layer, f"{column}_se"]
            assert error(np.zeros_like(found), found) == pytest.approx(expected, rel=1e-9, nan_ok=True), column


def test_differences_from_the_first_survey_and_between_layers(surveys: list[SurveyData]) -> None:
    one, two, _ = surveys
    data = compare(surveys, MEASURES, Choice("all", depth="layer")).data
    for survey, rows in zip((one, two), (data.iloc[: len(data) // 3], data.iloc[len(data) // 3 :]), strict=True):
        table = rows.iloc[: len(one.layer_names)].set_index("layer")
        for layer in (1, 2):
            step = table.loc[layer]
            assert step["v_within_step"] == pytest.approx(table["v_within"][layer] - table["v_within"][layer - 1])
            half = 1.96 * error(values(survey, layer - 1, "v_within"), values(survey, layer, "v_within"))
            assert step["v_within_step_high"] - step["v_within_step"] == pytest.approx(half)
        assert np.isnan(table["v_within_step"][0])
    size = len(data) // 3
    first, second, third = (data.iloc[k * size : (k + 1) * size].reset_index(drop=True) for k in range(3))
    assert first["mean_cosine_difference"].isna().all()
    assert third["mean_cosine_difference"].isna().all()  # other documents
    assert second["mean_cosine_difference"].tolist() == pytest.approx(second["mean_cosine"] - first["mean_cosine"])
    root = [np.sqrt(values(survey, 2, "m")) for survey in (one, two)]
    width = second["norm_of_mean_difference_high"][2] - second["norm_of_mean_difference"][2]
    assert width == pytest.approx(1.96 * error(*root))


def test_differences_are_in_the_printed_table_and_the_caption(surveys: list[SurveyData]) -> None:
    plate = compare(surveys[:2], ["mean_cosine", "twonn"], Choice("all", depth="layer"))
    assert plate.shown is not None
    printed = plate.shown["mean_cosine difference"].tolist()
    assert printed[: len(printed) // 2] == [""] * (len(printed) // 2)
    assert all("[" in text for text in printed[len(printed) // 2 :])
    assert "twonn difference" not in plate.shown
    assert "on the same documents, with 95% intervals over the same groups of documents." in plate.caption
    alone = compare([surveys[0], surveys[2]], ["mean_cosine"], Choice("all"))
    assert "same documents" not in alone.caption


def test_a_survey_of_an_older_version_has_no_differences(surveys: list[SurveyData]) -> None:
    old = replace(surveys[1], tables={"layers": surveys[1].layers})
    data = compare([surveys[0], old], ["mean_cosine"], Choice("all")).data
    assert data["mean_cosine_difference"].isna().all()
    assert share_documents(surveys[0], old)
    assert not share_documents(surveys[0], surveys[2])


def test_stacks_and_depths_without_a_counterpart_have_no_difference() -> None:
    facts = {"identity": {"corpus": {"sha256": "a"}}}
    rows = pd.DataFrame(
        {"layer": [0, 1, 2], "stack": ["encoder", "encoder", "decoder"], "joined_depth": [0.0, 0.5, 1.0], "q": 1.0}
    )
    groups = pd.DataFrame(
        [(layer, "all", "q", group, layer + group) for layer in range(3) for group in range(20)],
        columns=["layer", "population", "column", "group", "value"],
    )
    one, two = (SurveyData(facts, {"jackknife": groups}) for _ in range(2))
    other = rows.assign(joined_depth=[0.0, 0.4, 1.0])
    first, second = add_differences([rows, other], [one, two], "all", ["q"], "joined_depth")
    assert first["q_step"].tolist() == pytest.approx([np.nan, 0.0, np.nan], nan_ok=True)
    assert second["q_difference"].isna().tolist() == [False, True, False]


def test_a_folder_of_an_older_version_is_read(surveys: list[SurveyData], tmp_path: Path) -> None:
    from shutil import copytree

    from theodolite.storage.files import read_json, write_json
    from theodolite.surveys.folder import SEAL, _seal

    assert surveys[0].folder is not None
    old = Path(copytree(surveys[0].folder, tmp_path / "old"))
    (old / "jackknife.parquet").unlink()
    facts = read_json(old / "survey.json")
    del facts["files"]["jackknife.parquet"], facts["formulas"]["jackknife"]
    write_json(old / "survey.json", facts | {SEAL: _seal(facts)})
    assert read_survey_data(old, TABLES).tables["jackknife"].empty
    assert theodolite.open(old).jackknife.empty
