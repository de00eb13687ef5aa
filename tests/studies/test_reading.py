from __future__ import annotations

import json
import shutil

import pytest
from tests.small_models import make, sentences

from theodolite.report import Tables
from theodolite.studies.reading import MIN_POINTS, POINTS_PER_LAYER, points_per_layer, read_report_tables
from theodolite.surveys.folder import SEAL, _seal


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    from theodolite import survey

    folder = tmp_path_factory.mktemp("made") / "tiny"
    survey(str(make("bert", folder.parent / "model")), sentences(40), out=folder, sample_size=64)
    return folder


def test_a_survey_is_read_with_its_curves_and_sample(made):
    tables = Tables.of(read_report_tables(made))
    assert len(tables.scales)
    assert len(tables.spectra)
    assert set(tables.projections["population"]) >= {"all"}


def test_a_survey_from_before_curves_or_without_its_sample_is_read(made, tmp_path):
    old = shutil.copytree(made, tmp_path / "old")
    facts = json.loads((old / "survey.json").read_text("utf-8"))
    for name in ("scales", "spectra"):
        del facts["files"][f"{name}.parquet"]
        (old / f"{name}.parquet").unlink()
    (old / "survey.json").write_text(json.dumps(facts | {SEAL: _seal(facts)}))
    (old / "sample.safetensors").unlink()
    tables = Tables.of(read_report_tables(old))
    assert [len(tables.scales), len(tables.spectra), len(tables.projections)] == [0, 0, 0]
    assert len(tables.layers)


def test_fewer_points_are_drawn_where_each_costs_more():
    assert points_per_layer(1, 10) == POINTS_PER_LAYER
    assert points_per_layer(1000, 10) == MIN_POINTS
    assert points_per_layer(1, 10**8) == MIN_POINTS
    assert points_per_layer(0, 0) == POINTS_PER_LAYER
