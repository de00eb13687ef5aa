"""theodolite batches, from the survey to fig1, and in a reproduction."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from theodolite.exhibits.drawing.style import RC
from theodolite.reproduction import drawing
from theodolite.studies.anisotropy import batches as study


@pytest.fixture
def surveyed(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "survey")


def test_from_a_survey_to_the_figure(theodolite, surveyed, tmp_path):
    drawn = theodolite(
        "exhibit", "dynamics/fig1", surveyed, "--out", tmp_path / "a.png", "--data", tmp_path / "a.csv"
    )
    assert drawn.code == 0, drawn.err
    ran = theodolite("batches", surveyed, "--count", 3, "--size", 300)
    assert ran.code == 0, ran.err
    assert "second pass: 3 of " in ran.err
    assert "batches.parquet (3 of " in ran.out
    assert ran.out.count("population: ") == 4
    table = pd.read_parquet(surveyed / "batches.parquet")
    assert len(table) == 4 * 4 * 2 * 3
    again = theodolite("batches", surveyed, "--count", 3, "--size", 300, "--json", "--quiet")
    assert (again.code, again.err) == (0, "")
    printed = json.loads(again.out)
    assert (printed["facts"]["size"], printed["facts"]["stretches"]) == (300, 3)
    assert len(printed["rows"]) == 4 * 4
    drawn = theodolite(
        "exhibit", "dynamics/fig1", surveyed, "--out", tmp_path / "b.png", "--data", tmp_path / "b.csv"
    )
    assert drawn.code == 0, drawn.err
    before, after = (pd.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert (before["batches"].unique().tolist(), after["batches"].unique().tolist()) == ([0], [3])
    expected = [row["contiguous"] for row in printed["rows"] if row["population"] == "all"]
    assert after["anisotropy_svd"].tolist() == pytest.approx(expected)
    assert theodolite("show", surveyed).code == 0  # the survey itself is as it was


def test_invalid_input_is_rejected(theodolite, surveyed):
    ran = theodolite("batches", surveyed, "--size", 100_000)
    assert (ran.code, ran.out) == (2, "")
    assert "a batch requires at least 100,000 of every population" in ran.err
    ran = theodolite("batches", surveyed, "--memory", "much")
    assert ran.code == 2
    assert "--memory 'much' is not a size" in ran.err
    assert not (surveyed / "batches.parquet").exists()


@pytest.mark.slow
def test_reproducing_dynamics_prepares_them(theodolite, model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "ENDINGS", {"figure": ("png",), "table": ("png",)})
    monkeypatch.setitem(RC, "savefig.dpi", 30)
    monkeypatch.setitem(study.make_batches.__kwdefaults__, "size", 300)
    command = ("reproduce", "dynamics", "--model", model, "--corpus", corpus, "--out", tmp_path / "d", "--json")
    ran = theodolite(*command)
    assert ran.code == 0, ran.err
    captions = {row["name"]: row["caption"] for row in json.loads(ran.out)["exhibits"] if not row["edition"]}
    assert "contiguous batches of at least 300 positions, each centred separately" in captions["dynamics/fig1"]
    ran = theodolite(*command)
    assert ran.code == 0
    assert "second pass" not in ran.err  # they lie there
