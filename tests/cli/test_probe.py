"""theodolite probe, from a list of words to table1."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.planted_words import clusters, plant

from theodolite.studies.probe import classifiers


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    rows, labels = clusters(3, 8, apart=2.0)
    rows["bear"] = rows["aax"]
    folder = tmp_path_factory.mktemp("planted")
    words = folder / "words.csv"
    with words.open("w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows([("word", "label"), *labels, ("bear", "class 0"), ("bear", "class 2")])
    return plant(folder / "model", rows), words


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(classifiers, "BOOSTING_ROUNDS", 5)
    monkeypatch.setattr(classifiers, "HIDDEN_UNITS", 8)


def test_from_words_to_the_table(theodolite, planted, tmp_path):
    model, words = planted
    asked = ("probe", model, "--words", words, "--out", tmp_path / "found", "--folds", 2)
    ran = theodolite(*asked, "--layer", "table", "--layer", "-1", "--show", "bear", "--show", "two words")
    assert ran.code == 0, ran.err
    assert "24 of 26 words, 8 in each of 3 classes (omitted: several classes: 2)" in " ".join(ran.err.split())
    assert "--show two words: not a single token of this model (several tokens)" in " ".join(ran.err.split())
    for word in ("input table", "block 2", "boosted trees", "selectivity", "class 2", "bear"):
        assert word in ran.out
    drawn = theodolite("exhibit", "bert-spaces/table1", tmp_path / "found", "--out", tmp_path / "table1.md")
    assert drawn.code == 0, drawn.err
    assert "input table | no hidden layer | bear | class 0 |" in (tmp_path / "table1.md").read_text()
    again = theodolite(*asked)
    assert (again.code, "--overwrite" in again.err) == (2, True)
    ran = theodolite(*asked, "--overwrite", "--json", "--quiet")
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)
    assert [row["probe"] for row in printed["probes"]] == list(classifiers.PROBES)
    assert printed["counts"]["probed"] == 24
    assert {row["word"] for row in printed["confidence"]} == {"bear"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Give either --words FILE.csv or --wordnet CLASSES"),
        (("--words", "none.csv"), "file not found"),
        (("--words", "WORDS", "--layer", "top"), "(got 'top')"),
        (("--words", "WORDS", "--folds", "9"), "Add words, remove the class or give --folds 8."),
        (("--words", "WORDS", "--device", "abacus"), "--device 'abacus'"),
    ],
)
def test_bad_input_is_reported_in_one_sentence(theodolite, planted, tmp_path, options, words):
    model, file = planted
    given = [str(file) if each == "WORDS" else each for each in options]
    ran = theodolite("probe", model, "--out", tmp_path / "found", *given)
    assert ran.code == 2
    assert words in ran.err
    assert not Path(tmp_path / "found").exists()
