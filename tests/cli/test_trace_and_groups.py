"""theodolite trace and theodolite groups, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Theodolite

ONE, OTHER = "the mountain was in the river.", "the mountain was in the angle."


def test_trace_prints_its_tables_and_writes_a_folder(theodolite: Theodolite, model: Path, tmp_path: Path) -> None:
    ran = theodolite("trace", model, ONE, OTHER, "--out", tmp_path / "t", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert "block 3" in ran.out
    assert "river / angle" in ran.out
    assert (tmp_path / "t" / "laboratory.json").is_file()
    drawn = theodolite("exhibit", "bert-spaces/fig22", tmp_path / "t", "--out", tmp_path / "f.svg")
    assert drawn.code == 0
    again = theodolite("trace", model, ONE, "--out", tmp_path / "t")
    assert again.code == 2
    assert "give --overwrite to replace them" in again.err


def test_trace_reads_sentences_from_files(theodolite: Theodolite, model: Path, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text(f"{ONE}\n\n{OTHER}\n", encoding="utf-8")
    ran = theodolite("trace", model, "--file", tmp_path / "s.txt", "--reference", tmp_path / "s.txt", "--json")
    printed = json.loads(ran.out)
    assert printed["settings"]["sentences"] == printed["settings"]["reference"] == [ONE, OTHER]
    assert {row["token"] for row in printed["partings"]} >= {"mountain", "river"}
    assert printed["moves"][0]["step"] is None  # undefined is null


def test_groups_prints_layers_and_writes_a_folder(theodolite: Theodolite, model: Path, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(
        'group,sentence\nhills,the {mountain|ridge} here\ntools,"an {angle|instrument}, it is"\n', encoding="utf-8"
    )
    asked = ("groups", model, tmp_path / "g.csv", "--permutations", 9)
    ran = theodolite(*asked, "--out", tmp_path / "g", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert "groups · 4 sentences in 2 groups · pooling: mean" in ran.out
    assert "with-nonsense · 8 sentences in 4 groups" in ran.out
    assert "bag of words" in ran.out
    assert theodolite("exhibit", "bert-spaces/fig23", tmp_path / "g", "--out", tmp_path / "f.svg").code == 0
    printed = json.loads(theodolite(*asked, "--json", "--controls", 0, "--quiet").out)
    assert {row["population"] for row in printed["layers"]} == {"groups"}
    assert [row["undefined"] for row in printed["layers"]] == [None] * 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trace", "{model}"), "SENTENCE: give one sentence"),
        (("trace", "{model}", "  "), "Sentence 1 is empty"),
        (("trace", "{model}", "a", "--layers", "12"), "--layers names layer 12, which does not exist"),
        (("trace", "{model}", "a", "--file", "none.txt"), "--file none.txt does not exist"),
        (("trace", "no-such-folder/of/a/model", "a"), "there is no such folder"),
        (("groups", "{model}", "none.json"), "FILE none.json does not exist"),
        (("groups", "{model}", "none.txt"), "must end in one of json, jsonl, csv"),
    ],
)
def test_bad_input_is_reported_in_one_sentence(
    theodolite: Theodolite, model: Path, arguments: tuple[str, ...], words: str
) -> None:
    ran = theodolite(*(argument.replace("{model}", str(model)) for argument in arguments), "--quiet")
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
