"""The notes that `show` prints under the table, and its errors for folders that hold no survey."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.small_models import sentences

import theodolite as library
from theodolite.cli.layer_table import describe_columns, layer_notes, massive_hint
from theodolite.measures.columns import find_column

HINT = "These numbers include massive positions (up to 3 of 203 in a layer)"


def vectors(massive: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(200 + massive, 6)).astype(np.float32)
    x[200:] *= 5000
    return x


@pytest.mark.parametrize("verb", ["measure", "show"])
def test_massive_positions_are_reported_with_a_command_that_excludes_them(theodolite, tmp_path, verb):
    np.save(tmp_path / "x.npy", vectors(3))
    out = tmp_path / "an out"
    made = theodolite("measure", tmp_path / "x.npy", "--out", out)
    printed = made.out if verb == "measure" else theodolite("show", out, "--columns", "q").out
    assert HINT in printed
    command = re.search(r"`theodolite (.*?)` excludes them", printed)[1]
    ran = theodolite(*shlex.split(command))
    assert ran.code == 0, ran.err
    assert "population: without-massive" in ran.out
    assert "massive positions" not in ran.out


def test_without_a_folder_the_numbers_without_massive_positions_are_printed_too(theodolite, tmp_path):
    np.save(tmp_path / "x.npy", vectors(3))
    lines = theodolite("measure", tmp_path / "x.npy").out.splitlines()
    at = next(place for place, line in enumerate(lines) if HINT in line)
    assert lines[at].endswith("Without them:")
    assert lines[at + 1] == "x.npy · population: without-massive"
    assert lines[at + 3].split()[2] == "200"
    assert "--population" not in "".join(lines)


def test_without_massive_positions_there_is_no_hint(theodolite, tmp_path):
    np.save(tmp_path / "x.npy", vectors(0))
    assert "massive positions" not in theodolite("measure", tmp_path / "x.npy").out
    rows = pd.DataFrame({"population": ["all"], "massive": [2], "n": [9]})
    assert massive_hint(rows, "all", ["all"]) is None  # nothing to point to


def test_the_legend_states_which_units_fits_omit():
    facts = {"settings": {"min_count": 20}}
    for share, omits in ((0.1, True), (0.0, False)):  # 0: every unit has a vector
        words = describe_columns(facts, pd.DataFrame({"v_within_estimated_share": [share]}))
        assert "CV, slope and R2: over units with 10 to 100,000 occurrences, including special tokens" in words
        assert ("(units with n < 20 only where all units of about that n have a vector)" in words) == omits
    assert find_column("v_within_estimated_share").label == "V_W est. share"


def test_a_folder_of_surveys_names_them(theodolite, tmp_path):
    for name in ("a", "b", "c", "d", "e"):
        library.measure(vectors(0), out=tmp_path / name)
    ran = theodolite("show", tmp_path)
    assert ran.code == 2
    assert f"holds 5 surveys; show one of them: {tmp_path / 'a'}, " in ran.err
    assert ran.err.strip().endswith(f"{tmp_path / 'd'} and 1 more.")


def test_laboratories_and_series_are_rejected(theodolite, model, tmp_path):
    theodolite("trace", model, "The river is high.", "--out", tmp_path / "traced")
    assert "holds the results of a laboratory, not a survey" in theodolite("show", tmp_path / "traced").err
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "series.json").write_text("{}")
    assert "is a series, not a survey" in theodolite("show", tmp_path / "series").err
    (tmp_path / "empty").mkdir()
    assert "does not contain a survey: there is no survey.json" in theodolite("show", tmp_path / "empty").err


def test_an_unknown_column_gives_one_line(theodolite, tmp_path):
    library.measure(vectors(0), out=tmp_path / "out")
    ran = theodolite("show", tmp_path / "out", "--columns", "zzzzzz")
    assert ran.code == 2
    assert "there is no column 'zzzzzz'. All " in ran.err
    assert len(ran.err) < 200


def test_contextual_columns_are_shown_if_computed(theodolite, model, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(sentences(30)), "utf-8")
    common = ["survey", model, "--corpus", tmp_path / "texts.txt", "--sample-size", 64, "--quiet", "--out"]
    assert "self-sim" not in theodolite(*common, tmp_path / "plain").out
    assert "self-sim  intra-sim" in theodolite(*common, tmp_path / "contextual", "--contextuality").out


def odd() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(600, 12)).astype(np.float32)
    x[:, 7] += 30
    x[500:] = x[:100]
    x[250] = 0
    return x


LINES = ["coordinate 7 contributes 100% of cos", "100 of 600 sampled vectors are duplicates", "1 vector is zero"]


def test_notes_on_the_numbers_are_printed_under_the_table(theodolite, tmp_path):
    np.save(tmp_path / "x.npy", odd())
    assert [line for line in theodolite("measure", tmp_path / "x.npy").out.splitlines() if line in LINES] == LINES
    assert not any(line in theodolite("measure", tmp_path / "x.npy", "--json").out for line in LINES)
    np.save(tmp_path / "plain.npy", vectors(0))
    plain = theodolite("measure", tmp_path / "plain.npy").out.splitlines()
    assert plain[-1].startswith("Q: mean squared norm.")


def test_notes_are_about_the_last_block(theodolite, model, tmp_path):
    np.savez(tmp_path / "x.npz", first=odd(), second=odd()[:, :6])
    printed = theodolite("measure", tmp_path / "x.npz").out
    assert "\nsecond: 100 of 600 sampled vectors are duplicates\n" in printed
    assert "coordinate 7" not in printed  # of the first layer
    rows = pd.DataFrame(
        {"population": "all", "layer_name": ["block 1", "block 2", "final norm"], "zero": [3, 2, 1], "n": 9}
    )
    assert layer_notes(rows, "all") == ["block 2: 2 vectors are zero"]
    assert layer_notes(rows, "without-first") == []
    texts = ["The cat sat on the mat.", "The cat sat on the mat.", "A dog ran."]
    (tmp_path / "texts.txt").write_text("\n".join(texts), "utf-8")
    ran = theodolite("survey", model, "--corpus", tmp_path / "texts.txt", "--out", tmp_path / "s")
    assert re.search(r"^block \d+: \d+ of \d+ sampled vectors are duplicates$", ran.out, re.MULTILINE), ran.out


@pytest.mark.parametrize(
    ("cosine", "error", "share", "notes"),
    [
        (0.5, 0.01, 0.98, ["coordinate 3 contributes 98% of cos"]),
        (0.5, np.nan, 0.51, ["coordinate 3 contributes 51% of cos"]),
        (0.5, 0.01, 0.5, []),
        (0.002, 0.0, 0.9, []),  # most of next to nothing
        (0.05, 0.04, 0.9, []),  # within its error
        (np.nan, np.nan, np.nan, []),
    ],
)
def test_a_rogue_coordinate_is_reported_if_it_dominates(cosine, error, share, notes):
    row = {"mean_cosine": cosine, "mean_cosine_se": error, "rogue_cosine_share": share, "rogue_coordinate": 3}
    rows = pd.DataFrame([{"population": "all", "layer_name": "vectors", **row}])
    assert layer_notes(rows, "all") == notes


def test_a_single_duplicate_is_singular():
    row = {"population": "all", "layer_name": "vectors", "sample_duplicates": 1, "twonn_n": 9}
    assert layer_notes(pd.DataFrame([row]), "all") == ["1 of 10 sampled vectors is a duplicate"]


def test_headings_of_the_table_name_columns_too(theodolite, tmp_path):
    library.measure(vectors(0), out=tmp_path / "out")
    shown = theodolite("show", tmp_path / "out", "--columns", "cos, svd,rank,PR,TwoNN,CV(Q),V_W,mean_cosine,name")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].split() == "layer name cos svd rank PR TwoNN CV(Q) V_W".split()
    whole = theodolite("show", tmp_path / "out").out.splitlines()[1].split()
    assert theodolite("show", tmp_path / "out", "--columns", ",".join(whole)).code == 0
    near = theodolite("show", tmp_path / "out", "--columns", "cosin")
    assert near.code == 2
    assert "no column 'cosin'. Did you mean 'cos' or 'mean_cosine'" in near.err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [0, 1])
def test_a_reader_that_ends_is_no_error(finished, lines, unbuffered):
    command = "import sys; from theodolite.cli.app import main; sys.argv[0] = 'theodolite'; main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "show", str(finished)],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},  # an empty value is none
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as ran:
        for _ in range(lines):
            ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 0
