"""theodolite sets, from the survey to the figures, and rejected input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from tests.small_models import make, sentences

import theodolite as package
from theodolite.statistics.rare_units import choose_units
from theodolite.storage.files import read_tensors


@pytest.fixture
def surveyed(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "survey")


def test_from_a_survey_to_the_pictures(theodolite, surveyed, tmp_path):
    ran = theodolite("exhibit", "norm-variance/fig1", surveyed, "--out", tmp_path / "fig1.png")
    assert (ran.code, ran.out) == (2, "")
    assert f"make them with `theodolite sets {surveyed}`" in ran.err
    ran = theodolite("sets", surveyed, "--seed", 1, "--most", 20)
    assert ran.code == 0, ran.err
    assert "of the 20 chosen tokens" in ran.err
    table = pd.read_parquet(surveyed / "token_sets.parquet")
    assert {"unit", "text", "n", "q", "m", "v", "kept", "log10_n"} <= set(table.columns)
    assert (table["kept"] == table["n"].clip(upper=20)).all()
    tensors, metadata = read_tensors(surveyed / "token_sets.safetensors")
    facts = json.loads(metadata["facts"])
    assert (facts["layer"], facts["seed"], facts["most"]) == (1, 1, 20)
    assert len(tensors["vectors"]) == table["kept"].sum()
    assert f"{len(table)} tokens, {len(tensors['vectors']):,} vectors, layer 1" in ran.out
    for name in ("fig1.png", "fig8.svg", "table2.md"):
        drawn = theodolite(
            "exhibit", f"norm-variance/{name.partition('.')[0]}", surveyed, "--out", tmp_path / name
        )
        assert drawn.code == 0, drawn.err
    assert not list(surveyed.glob(".*.part"))


def test_positions_can_be_excluded_and_the_captions_state_it(theodolite, surveyed, tmp_path):
    ran = theodolite("sets", surveyed, "--population", "without-first", "--unit", "[SEP]", "--unit", "the")
    assert ran.code == 0, ran.err
    assert "layer 1, without-first, " in ran.out
    assert theodolite("exhibit", "norm-variance/table2", surveyed, "--out", tmp_path / "t.md").code == 0
    assert "Vectors: all positions except the first of each window." in (tmp_path / "t.md").read_text("utf-8")
    ran = theodolite("sets", surveyed, "--population", "without-first", "--unit", "[CLS]", "--unit", "the")
    assert ran.code == 2
    assert "has no such unit in population without-first" in ran.err


def test_a_population_that_was_not_surveyed_is_rejected(theodolite, model, corpus, tmp_path):
    package.survey(model, corpus, out=tmp_path / "s", layers=[1], sample_size=8, populations=["all"])
    ran = theodolite("sets", tmp_path / "s", "--population", "without-massive")
    assert ran.code == 2
    assert "--populations all,without-massive" in ran.err


def test_chosen_tokens_and_quiet_output(theodolite, surveyed):
    ran = theodolite("sets", surveyed, "--unit", "mountain", "--unit", "##or", "--layer", 3, "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert set(pd.read_parquet(surveyed / "token_sets.parquet")["unit"]) == {"mountain", "##or"}
    ran = theodolite("sets", surveyed, "--unit", "mountain", "--unit", "mountains")
    assert ran.code == 2
    assert "--unit 'mountains': the survey of" in ran.err
    assert "Did you mean 'mountain'" in ran.err


@pytest.mark.slow
def test_moved_files_are_found_and_changed_ones_rejected(theodolite, model, corpus, tmp_path):
    moved_model = shutil.copytree(model, tmp_path / "here")
    texts = shutil.copy(corpus, tmp_path / "texts.txt")
    out = tmp_path / "survey"
    package.survey(moved_model, texts, out=out, layers=[1], sample_size=8)
    Path(texts).unlink()
    ran = theodolite("sets", out)
    assert ran.code == 2
    assert "Give the current location of the surveyed documents with --corpus." in ran.err
    other = tmp_path / "other.txt"
    other.write_text("\n".join(sentences(50, seed=9)), encoding="utf-8")
    ran = theodolite("sets", out, "--corpus", other)
    assert ran.code == 2
    assert "does not contain the surveyed documents: its sha256 is" in ran.err
    shutil.rmtree(moved_model)
    ran = theodolite("sets", out, "--corpus", corpus)
    assert ran.code == 2
    assert "Give the current location of the surveyed model with --model." in ran.err
    ran = theodolite("sets", out, "--corpus", corpus, "--model", make("bert", tmp_path / "new", seed=3))
    assert ran.code == 2
    assert "does not have the surveyed weights" in ran.err
    assert not (out / "token_sets.parquet").exists()
    assert theodolite("sets", out, "--corpus", corpus, "--model", model, "--quiet").code == 0


def test_a_corpus_that_cannot_be_read_again_is_rejected(theodolite, model, corpus, surveyed, tmp_path):
    texts = sentences(40)
    package.survey(model, texts, out=tmp_path / "listed", layers=[1], sample_size=8)
    ran = theodolite("sets", tmp_path / "listed")
    assert ran.code == 2
    assert "were a Python list of 40 texts, which no longer exists. Write them to a file and give it" in ran.err
    (tmp_path / "written.txt").write_text("\n".join(texts), encoding="utf-8")
    assert theodolite("sets", tmp_path / "listed", "--corpus", tmp_path / "written.txt").code == 0
    more = tmp_path / "more"
    package.survey(model, sentences(30, seed=4), out=more, sample_size=64)
    package.merge([surveyed, more], out=tmp_path / "merged")
    ran = theodolite("sets", tmp_path / "merged")
    assert ran.code == 2
    assert "The text of a merged survey cannot be read again" in ran.err


def test_invalid_options_are_rejected(theodolite, surveyed, tmp_path):
    for arguments, words in (
        ((surveyed, "--most", 0), "--most requires at least 1 vector per token (got 0)"),
        ((surveyed, "--layer", 9), "--layer 9: the survey of"),
        ((tmp_path / "none",), "is not a folder"),
        ((surveyed, "--population", "without-last"), "--population 'without-last': the survey of"),
    ):
        ran = theodolite("sets", *arguments)
        assert (ran.code, words in ran.err) == (2, True)


def test_sets_of_a_replaced_survey_are_rejected(theodolite, surveyed, model, tmp_path):
    assert theodolite("sets", surveyed, "--quiet").code == 0
    other = tmp_path / "other"
    package.survey(model, sentences(150, seed=4), out=other, sample_size=8)
    for name in ("token_sets.safetensors", "token_sets.parquet"):
        shutil.copy(surveyed / name, other / name)
    ran = theodolite("exhibit", "norm-variance/table2", other, "--out", tmp_path / "t.md")
    assert ran.code == 2
    assert f"belong to a survey that has been replaced; run `theodolite sets {other}` again" in ran.err
    (surveyed / "token_sets.parquet").write_bytes(b"cut")
    ran = theodolite("exhibit", "norm-variance/table2", surveyed, "--out", tmp_path / "t.md")
    assert ran.code == 1
    assert "is damaged" in ran.err


def test_most_rare_units_without_a_vector(theodolite, model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("theodolite.statistics.rare_units.MIN_SAMPLED", 2)
    monkeypatch.setitem(choose_units.__kwdefaults__, "sampled", 10)
    package.survey(model, corpus, out=tmp_path / "s", layers=[1], sample_size=8, min_count=20)
    ran = theodolite("sets", tmp_path / "s")
    assert ran.code == 0, ran.err
    assert pd.read_parquet(tmp_path / "s" / "token_sets.parquet")["v"].notna().all()
