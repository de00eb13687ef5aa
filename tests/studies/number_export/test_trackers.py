"""Numbers for trackers: names that sort, Prometheus text, the real libraries where they are installed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.synthetic_series import make_series
from tests.synthetic_surveys import make_survey

from theodolite.errors import InputError, TheodoliteError
from theodolite.studies.number_export import trackers
from theodolite.studies.number_export.numbers import Number, Numbers, read_numbers
from theodolite.studies.number_export.trackers import export_numbers, format_prometheus
from theodolite.studies.survey_data import SurveyData

LINE = re.compile(r'theodolite_[a-z_]+\{(([a-z_]+)="((?:[^"\\\n]|\\.)*)",?)*\} -?[0-9.e+-]+')
"""A sample of the text format, without a timestamp."""


def read(source: Any, **options: Any) -> Numbers:
    return read_numbers(source, **{"layers": None, "population": "all", "measures": ()} | options)


@pytest.fixture(scope="module")
def survey() -> SurveyData:
    return make_survey('a "quoted"\nname', layers=12).survey


def test_names_sort_as_blocks_do(survey: SurveyData) -> None:
    found = read(survey, measures=("q",))
    keys = [found.key(number) for number in found.numbers]
    assert keys[0] == "geometry/embeddings/q"
    assert keys[1:] == [f"geometry/block_{block:02d}/q" for block in range(1, 12)]
    deep = Numbers([Number("q", 1.0, layer, f"block {layer}") for layer in (9, 120)], {}, blocks=120)
    assert [deep.key(number) for number in deep.numbers] == ["geometry/block_009/q", "geometry/block_120/q"]
    odd = Numbers([Number("q", 1.0, 0, 'a "b"/c')], {})
    assert odd.key(odd.numbers[0]) == "geometry/a_b/c/q"


def test_numbers_are_those_of_the_table(survey: SurveyData) -> None:
    rows = survey.layers[survey.layers["population"] == "all"]
    found = read(survey)
    by_name = {(one.name, one.layer): one.value for one in found.numbers}
    assert by_name["v_within", 3] == rows["v_within"].iloc[3]
    assert not [one for one in found.numbers if one.name.endswith("_se") or one.name.startswith("text_")]
    assert {one.layer for one in read(survey, layers="0,-1").numbers} == {0, 11}
    holes = SurveyData(survey.facts, {"layers": survey.layers.assign(v=pd.NA).astype({"v": "Float64"})})
    assert "v" not in {one.name for one in read(holes).numbers}  # undefined is no number, not 0
    with pytest.raises(InputError, match="there is no number 'qq'"):
        read(survey, measures=("qq",))
    with pytest.raises(InputError, match="has all, without-first"):
        read(survey, population="some")


def test_prometheus_text_can_be_read_by_its_grammar(survey: SurveyData, tmp_path: Path) -> None:
    made = export_numbers(survey, to="prometheus", out=tmp_path / "a.prom", population="all", measures=("q", "m"))
    text = (tmp_path / "a.prom").read_text("utf-8")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == 24 == sum(made.layers.values())
    assert all(LINE.fullmatch(line) for line in samples)
    assert r'model="a \"quoted\"\nname"' in samples[0]
    assert text.count("# TYPE theodolite_q gauge") == 1
    assert 'layer="06"' in text
    with pytest.raises(InputError, match=r"end in .prom"):
        export_numbers(survey, to="prometheus", out=tmp_path / "a.txt", population="all")


def test_a_series_has_steps_and_prometheus_its_last() -> None:
    series = make_series(steps=(0, 10, 100)).as_survey_data()
    found = read(series, measures=("mean_cosine",))
    assert sorted({one.step for one in found.numbers}) == [0, 10, 100]
    lines = format_prometheus(found).splitlines()
    assert sum(line.startswith("theodolite_mean_cosine{") for line in lines) == len(found.numbers) // 3
    assert [line.endswith("} 100.0") for line in lines if line.startswith("theodolite_step{")] == [True]


def test_the_results_of_a_check_are_numbers(tmp_path: Path) -> None:
    cell = {"key": "", "layer": 3, "layer_name": "block 3", "difference": 0.25, "p_adjusted": None}
    content = {
        "check": {"subject": "new", "baseline": "old", "kind": "survey"},
        "passed": False,
        "rules": [{"rule": "mean_cosine", "broken": True, "cells": [cell]}],
    }
    (tmp_path / "check.json").write_text(json.dumps(content), encoding="utf-8")
    found = read(tmp_path / "check.json")
    assert {found.key(one): one.value for one in found.numbers} == {
        "check_passed": 0.0,
        "check_broken_rules": 1.0,
        "check_rule_broken/01_mean_cosine": 1.0,
        "check_difference/01_mean_cosine/block_3": 0.25,
    }
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is not the JSON file of a check"):
        read(tmp_path / "other.json")


@pytest.mark.parametrize(("to", "out"), [("mlflow", "a.db"), ("wandb", "a"), ("tensorboard", "a")])
def test_a_missing_library_is_named_with_its_command(
    to: str, out: str, survey: SurveyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(trackers, "import_module", missing)
    with pytest.raises(TheodoliteError, match=f"requires a library that is not installed: pip install {to}"):
        export_numbers(survey, to=to, out=tmp_path / out, population="all")


def test_mlflow_needs_a_server_or_a_database(survey: SurveyData, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"such as mlflow.db"):
        export_numbers(survey, to="mlflow", out=tmp_path / "folder", population="all")


def test_tensorboard_reads_the_same_scalars(survey: SurveyData, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    made = export_numbers(survey, to="tensorboard", out=tmp_path / "a", population="all", measures=("q",))
    assert made.command == f"tensorboard --logdir {tmp_path / 'a'}"
    events = EventAccumulator(str(tmp_path / "a"))
    events.Reload()
    assert events.Tags()["scalars"] == [
        f"geometry/{name}/q" for name in ("embeddings", *(f"block_{block:02d}" for block in range(1, 12)))
    ]
    value = survey.layers.query("population == 'all' and layer == 6")["q"].iloc[0]
    assert events.Scalars("geometry/block_06/q")[0].value == pytest.approx(value, rel=1e-6)  # in float32


def test_mlflow_holds_the_same_metrics(survey: SurveyData, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    series = make_series(steps=(0, 10)).as_survey_data()
    export_numbers(series, to="mlflow", out=tmp_path / "a.db", population="all", measures=("mean_cosine",))
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'a.db'}")
    experiment = client.get_experiment_by_name("theodolite")
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "geometry/block_1/mean_cosine")
    assert [one.step for one in history] == [0, 10]
    table = series.tables["series"].query("population == 'all' and layer == 1")
    assert [one.value for one in history] == table["mean_cosine"].tolist()
    assert run.data.tags["model"] == "tiny"


def test_wandb_writes_an_offline_run(survey: SurveyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    made = export_numbers(survey, to="wandb", out=tmp_path / "a", population="all", measures=("q",))
    (written,) = (tmp_path / "a").rglob("*.wandb")
    assert made.command == f"wandb sync {written.parent}"
    assert b"geometry/block_06/q" in written.read_bytes()
