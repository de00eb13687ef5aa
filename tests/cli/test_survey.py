"""theodolite survey, show, merge and report as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Theodolite

import theodolite as package
from theodolite.cli.layer_table import _split_columns
from theodolite.storage.lock import exclusive


def survey(theodolite: Theodolite, model: Path, corpus: Path, out: Path, *more: object):
    return theodolite("survey", model, "--corpus", corpus, "--out", out, "--sample-size", 64, *more)


@pytest.fixture(scope="module")
def made(model: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("surveys") / "made"
    package.survey(model, corpus, out=out, sample_size=64)
    return out


def test_a_survey_writes_its_folder_and_names_the_report(theodolite, model, corpus, tmp_path):
    ran = survey(theodolite, model, corpus, tmp_path / "s")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == f"report: {tmp_path / 's' / 'report.html'}"
    assert "embeddings" in ran.out
    assert "block 1" in ran.out
    files = {path.name for path in (tmp_path / "s").iterdir()}
    names = ("layers", "tokens", "units", "coordinates", "scales", "spectra", "jackknife")
    tables = {f"{name}.parquet" for name in (*names, "neighbours", "contexts")}
    assert files == {
        *tables,
        "survey.json",
        "pilot.safetensors",
        "state.safetensors",
        "sample.safetensors",
        "layer_norms.safetensors",
        "report.html",
    }


def test_only_json_goes_to_stdout(theodolite, model, corpus, tmp_path):
    ran = survey(theodolite, model, corpus, tmp_path / "s", "--json", "--layers", "0,-1")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert [row["population"] for row in found["layers"][:3]] == ["all", "without-first", "without-massive"]
    assert len(found["layers"]) == 2 * 4
    assert "positions" in ran.err  # progress goes to stderr


def test_quiet_prints_no_progress(theodolite, model, corpus, tmp_path):
    ran = survey(theodolite, model, corpus, tmp_path / "s", "--quiet")
    assert ran.code == 0
    assert ran.err == ""


def test_show_prints_the_table_of_a_population(theodolite, made):
    ran = theodolite("show", made, "--population", "without-first")
    assert ran.code == 0
    assert "without-first" in ran.out
    rows = json.loads(theodolite("show", made, "--json").out)
    layers = package.open(made).layers
    assert [row["q"] for row in rows] == pytest.approx(layers["q"].tolist(), rel=1e-12)
    few = theodolite("show", made, "--columns", "q,twonn").out
    assert "block 2" in few  # a number without its layer has no meaning
    assert "V_W" not in few


def test_a_narrow_terminal_splits_the_table_and_keeps_every_digit():
    heads = ["layer", "layer_name"]
    cells = {column: ["123,456"] * 3 for column in (*heads, "q", "m", "v", "twonn")}
    blocks = _split_columns(["q", "m", "v", "twonn"], cells, width=40)
    assert len(blocks) > 1
    assert all(block[:2] == heads for block in blocks)
    assert [column for block in blocks for column in block[2:]] == ["q", "m", "v", "twonn"]


def test_json_keeps_every_digit(theodolite, made):
    rows = json.loads(theodolite("show", made, "--json").out)
    assert [row["q"] for row in rows] == package.open(made).layers["q"].tolist()


def test_two_runs_do_not_share_a_folder(theodolite, model, corpus, tmp_path):
    with exclusive(tmp_path / "s"):
        ran = survey(theodolite, model, corpus, tmp_path / "s", "--resume")
    assert ran.code == 2
    assert "another run is writing there" in ran.err
    assert survey(theodolite, model, corpus, tmp_path / "s").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_two_corpora_are_rejected(theodolite, model, corpus, tmp_path):
    ran = survey(theodolite, model, corpus, tmp_path / "s", "--corpus", corpus)
    assert ran.code == 2
    assert "quoted glob" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--population", "some"],
            "--population 'some' is not in this survey, which has all, without-first, without-massive",
        ),
        (["--columns", "mean_cosin"], "no column 'mean_cosin'. Did you mean 'mean_cosine'"),
    ],
)
def test_show_rejects_unknown_names(theodolite, made, arguments, words):
    ran = theodolite("show", made, *arguments)
    assert ran.code == 2
    assert words in ran.err


def test_report_draws_several_surveys_on_one_page(theodolite, made, tmp_path):
    ran = theodolite("report", made, made, "--out", tmp_path / "page.html")
    assert ran.code == 0
    assert ran.out.strip() == f"report: {tmp_path / 'page.html'}"
    assert 'data-part="side-by-side"' in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.slow
def test_merged_parts_equal_the_complete_survey(theodolite, model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 2000)
    survey(theodolite, model, corpus, tmp_path / "whole")
    survey(theodolite, model, corpus, tmp_path / "a", "--part", "0/2")
    survey(theodolite, model, corpus, tmp_path / "b", "--part", "1/2", "--pilot", tmp_path / "a")
    ran = theodolite("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "ab")
    assert ran.code == 0, ran.err
    whole, merged = package.open(tmp_path / "whole"), package.open(tmp_path / "ab")
    assert merged.layers["n"].tolist() == whole.layers["n"].tolist()
    # Batches differ between the parts and the whole, and a forward pass is not batch-invariant: 1e-5.
    for column in ("q", "m", "v", "v_within", "mean_cosine", "effective_rank"):
        assert merged.layers[column].tolist() == pytest.approx(whole.layers[column].tolist(), rel=1e-5, abs=1e-7)
    twice = theodolite("merge", tmp_path / "a", tmp_path / "ab", "--out", tmp_path / "no")
    assert twice.code == 2
    assert "would be counted twice" in twice.err


def test_merging_lists_what_differs(theodolite, model, corpus, made, tmp_path):
    survey(theodolite, model, corpus, tmp_path / "w", "--units", "word", "--max-tokens", "16")
    ran = theodolite("merge", made, tmp_path / "w", "--out", tmp_path / "m")
    assert ran.code == 2
    assert "--units: 'id' in the others, 'word' in" in ran.err
    assert "--max-tokens" in ran.err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_part_that_covers_the_corpus_is_reported(theodolite, model, corpus, tmp_path):
    ran = theodolite("survey", model, "--corpus", corpus, "--out", tmp_path / "a", "--part", "0/2")
    assert ran.code == 0, ran.err
    assert "--part 0/2: the corpus has only 1 shard: this part is all of it" in " ".join(ran.err.split())
    whole = theodolite("survey", model, "--corpus", corpus, "--out", tmp_path / "b", "--part", "0/1")
    assert "warning" not in whole.err
