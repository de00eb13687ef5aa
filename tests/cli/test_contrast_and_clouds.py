"""The two verbs as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Theodolite
from tests.small_models import sentences

TEXTS = sentences(60, seed=3, longest=8)


def pairs_file(folder: Path) -> Path:
    path = folder / "pairs.json"
    classes = {
        name: [TEXTS[i : i + 2] for i in range(s, s + 12, 2)] for name, s in (("up-down", 0), ("in-out", 12))
    }
    path.write_text(json.dumps(classes), encoding="utf-8")
    return path


def test_contrast(theodolite: Theodolite, model: Path, tmp_path: Path) -> None:
    pairs, out = pairs_file(tmp_path), tmp_path / "found"
    ran = theodolite("contrast", model, pairs, "--out", out, "--layers", "-1")
    assert ran.code == 0
    assert "in-out" in ran.out
    assert "0.031" in ran.out  # the least p of six pairs
    assert "SEAT" in ran.out
    assert "random" in ran.out
    assert "pairs differ in punctuation" in ran.err
    again = theodolite("contrast", model, pairs, "--out", out)
    assert again.code == 2
    assert "--overwrite" in again.err
    as_json = theodolite(
        "contrast", model, pairs, "--out", out, "--overwrite", "--json", "--quiet", "--layers", "0,-1"
    )
    found = json.loads(as_json.out)
    assert len(found["cosines"]) == 2
    drawn = theodolite("exhibit", "bert-spaces/table7", out, "--out", tmp_path / "table7.md")
    assert drawn.code == 0
    assert "up-down" in (tmp_path / "table7.md").read_text(encoding="utf-8")


def test_contrast_without_pairs(theodolite: Theodolite, model: Path, tmp_path: Path) -> None:
    ran = theodolite("contrast", model, tmp_path / "none.json", "--out", tmp_path / "x")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "does not exist" in ran.err
    assert not (tmp_path / "x").exists()


def test_clouds(theodolite: Theodolite, model: Path, corpus: Path, tmp_path: Path) -> None:
    other, out = tmp_path / "other.txt", tmp_path / "found"
    other.write_text("\n".join(sentences(50, seed=9, longest=9)), encoding="utf-8")
    options = ("--limit", 40, "--projections", "pca", "--permutations", 99, "--out", out)
    ran = theodolite("clouds", model, corpus, other, *options)
    assert ran.code == 0
    assert "matched" in ran.out
    assert "by length" in ran.out
    as_json = theodolite("clouds", model, corpus, other, *options, "--overwrite", "--json", "--quiet")
    assert {row["lengths"] for row in json.loads(as_json.out)["separations"]} == {"as-is", "matched", "plain"}
    twice = theodolite("clouds", model, corpus, corpus, "--out", tmp_path / "x")
    assert twice.code == 2
    assert "was given twice" in twice.err
    drawn = theodolite("exhibit", "bert-spaces/fig26", out, "--out", tmp_path / "fig26.svg")
    assert drawn.code == 0
