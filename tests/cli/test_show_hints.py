"""What show says beside the table, and of folders that are no survey."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.small_models import sentences

import theodolite as library
from theodolite.cli.show_hints import massive_hint

HINT = "Massive positions are among these: up to 3 of 203 in a layer"


def vectors(massive: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(200 + massive, 6)).astype(np.float32)
    x[200:] *= 5000
    return x


@pytest.mark.parametrize("verb", ["measure", "show"])
def test_massive_positions_are_told_with_the_way_to_leave_them_out(theodolite, tmp_path, verb):
    np.save(tmp_path / "x.npy", vectors(3))
    made = theodolite("measure", tmp_path / "x.npy", "--out", tmp_path / "out")
    printed = made.out if verb == "measure" else theodolite("show", tmp_path / "out", "--columns", "q").out
    assert HINT in printed
    assert "--population without-massive" in printed
    assert "Massive" not in theodolite("show", tmp_path / "out", "--population", "without-massive").out


def test_where_nothing_is_massive_nothing_is_said(theodolite, tmp_path):
    np.save(tmp_path / "x.npy", vectors(0))
    assert "Massive" not in theodolite("measure", tmp_path / "x.npy").out
    rows = pd.DataFrame({"population": ["all"], "massive": [2], "n": [9]})
    assert massive_hint(rows, "all", ["all"]) is None  # nothing to point to


def test_a_folder_of_surveys_names_them(theodolite, tmp_path):
    for name in ("a", "b", "c", "d", "e"):
        library.measure(vectors(0), out=tmp_path / name)
    ran = theodolite("show", tmp_path)
    assert ran.code == 2
    assert f"holds 5 surveys; show one of them: {tmp_path / 'a'}, " in ran.err
    assert ran.err.strip().endswith(f"{tmp_path / 'd'} and 1 more.")


def test_a_laboratory_and_a_series_are_told_apart_from_a_survey(theodolite, model, tmp_path):
    theodolite("trace", model, "The river is high.", "--out", tmp_path / "traced")
    assert "is of a laboratory, not a survey" in theodolite("show", tmp_path / "traced").err
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "series.json").write_text("{}")
    assert "is a series, not a survey" in theodolite("show", tmp_path / "series").err
    (tmp_path / "empty").mkdir()
    assert "holds no survey: there is no survey.json" in theodolite("show", tmp_path / "empty").err


def test_a_wrong_column_is_answered_in_one_line(theodolite, tmp_path):
    library.measure(vectors(0), out=tmp_path / "out")
    ran = theodolite("show", tmp_path / "out", "--columns", "zzzzzz")
    assert ran.code == 2
    assert "there is no column 'zzzzzz'. There are " in ran.err
    assert len(ran.err) < 200


def test_contextual_columns_are_shown_where_there_are_any(theodolite, model, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(sentences(30)), "utf-8")
    common = ["survey", model, "--corpus", tmp_path / "texts.txt", "--quiet", "--out"]
    assert "self-sim" not in theodolite(*common, tmp_path / "plain").out
    assert "self-sim  intra-sim" in theodolite(*common, tmp_path / "contextual", "--contextuality").out
