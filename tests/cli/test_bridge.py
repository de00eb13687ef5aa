"""`theodolite bridge` as a user types it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Theodolite
from tests.small_models import sentences


def test_two_models(
    theodolite: Theodolite, model: Path, corpus: Path, small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    out, saved = tmp_path / "found", tmp_path / "map.safetensors"
    options = ("--corpus", corpus, "--out", out, "--limit", 80, "--layers", "0,-1")
    ran = theodolite("bridge", model, small_model("gpt2"), *options, "--save-map", saved)
    assert ran.code == 0
    assert "Positions are matched word by word" in ran.out
    assert "most alike" in ran.out
    assert "times the forward passes" in ran.out
    assert saved.is_file()
    assert (out / "cka.png").read_bytes().startswith(b"\x89PNG")
    again = theodolite("bridge", model, small_model("gpt2"), *options)
    assert again.code == 2
    assert "--overwrite" in again.err
    as_json = theodolite("bridge", model, small_model("gpt2"), *options, "--overwrite", "--json", "--quiet")
    found = json.loads(as_json.out)
    assert len(found["cka"]) == 4
    assert found["maps"][0]["map_reason"] is None
    assert found["positions"]["matched"] == found["cka"][0]["n"]


def test_one_model(theodolite: Theodolite, model: Path, corpus: Path, tmp_path: Path) -> None:
    ran = theodolite("bridge", model, "--corpus", corpus, "--out", tmp_path / "found", "--limit", 30)
    assert ran.code == 0
    assert "most alike" not in ran.out
    assert "block 3" in ran.out


def test_bad_input_is_one_sentence(
    theodolite: Theodolite, model: Path, corpus: Path, small_model: Callable[[str], Path], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n", encoding="utf-8")
    for arguments, message in (
        ((model, "--corpus", empty), "contains no text"),
        ((model, small_model("gpt2"), "--corpus", corpus, "--match", "token"), "--match token requires"),
        ((model, "--corpus", corpus, "--save-map", "map.safetensors"), "--save-map requires a second model"),
        ((model, "--corpus", corpus, "--max-tokens", 1), "--max-tokens 1 leaves no space"),
    ):
        ran = theodolite("bridge", *arguments, "--out", tmp_path / "x", "--quiet")
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert message in ran.err
        assert not (tmp_path / "x").exists()


def test_bridges_of_other_documents_are_merged_and_reported(
    theodolite: Theodolite, model: Path, tmp_path: Path
) -> None:
    for number in range(2):
        text = tmp_path / f"{number}.txt"
        text.write_text("\n".join(sentences(40, seed=number)), encoding="utf-8")
        options = ("--corpus", text, "--out", tmp_path / str(number), "--keep-sums", "--quiet")
        assert theodolite("bridge", model, *options, "--layers", "0,-1", "--neighbours", 2).code == 0
    merged = theodolite("merge", tmp_path / "0", tmp_path / "1", "--out", tmp_path / "both")
    assert merged.code == 0, merged.err
    assert re.search(r"0\.txt \+ \S*1\.txt", merged.out)
    assert (tmp_path / "both" / "cka.png").is_file()
    page = tmp_path / "page.html"
    assert theodolite("report", tmp_path / "both", "--out", page).code == 0
    assert "bridge/cka" in page.read_text("utf-8")
    twice = theodolite("merge", tmp_path / "both", tmp_path / "1", "--out", tmp_path / "twice")
    assert (twice.code, twice.err.count("\n")) == (2, 1)
    assert "would count twice" in twice.err
