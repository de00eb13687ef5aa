"""theodolite dynamics, from checkpoints to a figure."""

from __future__ import annotations

import json

import pytest
from tests.training_steps import checkpoints

from theodolite.exhibits.drawing.style import RC
from theodolite.reproduction import drawing

SMALL = ("--sample-size", 32, "--limit", 12)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return checkpoints(tmp_path_factory.mktemp("runs"), (0, 10, 20, 40), family="bert")


def test_from_checkpoints_to_the_figure(theodolite, runs, corpus, tmp_path):
    given = ("dynamics", "tiny", "--checkpoints", f"{runs}/checkpoint-{{step}}", "--corpus", corpus, *SMALL)
    out = tmp_path / "series"
    ran = theodolite(*given, "--out", out, "--steps", "20,0,10")
    assert ran.code == 0, ran.err
    assert "step 10 (2 of 3)" in ran.err
    assert "series.parquet (3 steps)" in ran.out
    assert ran.out.count("population: ") == 5  # four of layers, one of attention
    assert "TwoNN+e" in ran.out
    assert "Half-way: " in ran.out
    assert "Lagged correlations are omitted: they require 6 pairs" in ran.out
    more = theodolite(*given, "--out", out, "--json", "--quiet")
    assert (more.code, more.err) == (0, "warning: 1 intermediate step seems to be missing: 30\n")
    printed = json.loads(more.out)
    assert [step["step"] for step in printed["steps"]] == [0, 10, 20, 40]
    assert {row["scope"] for row in printed["averages"]} == {"blocks", "with-embeddings"}  # BERT has no final norm
    assert {row["order"] for row in printed["leads"]} <= {"before", "after", "undecided"}
    for name in ("fig2", "fig3", "attention"):
        drawn = theodolite("exhibit", f"dynamics/{name}", out, "--out", tmp_path / f"{name}.png")
        assert drawn.code == 0, drawn.err
    shown = theodolite("show", out / "steps" / "10")
    assert shown.code == 0


def test_invalid_input_is_rejected(theodolite, runs, corpus, tmp_path):
    given = ("dynamics", "tiny", "--corpus", corpus, "--out", tmp_path / "x")
    ran = theodolite(*given)
    assert (ran.code, ran.out) == (2, "")
    assert "Give either --checkpoints or --revisions (got neither)" in ran.err
    ran = theodolite(*given, "--checkpoints", f"{runs}/checkpoint-{{step}}", "--steps", "10,ten")
    assert "--steps '10,ten': expected integers" in ran.err
    ran = theodolite(*given, "--checkpoints", f"{runs}/checkpoint-{{step}}", "--steps", "10,30")
    assert ran.code == 2
    assert "step 30 is missing (no folder" in ran.err
    ran = theodolite(*given, "--checkpoints", runs / "start")
    assert ran.code == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("names", [("one",), pytest.param(("one", "two"), marks=pytest.mark.slow)])
def test_reproduce_uses_existing_series(theodolite, runs, model, corpus, tmp_path, monkeypatch, names):
    monkeypatch.setitem(RC, "savefig.dpi", 40)
    monkeypatch.setattr(drawing, "ENDINGS", {"figure": ("png",), "table": ("md",)})
    folders = []
    for name in names:
        given = ("--checkpoints", f"{runs}/checkpoint-[0-2]*", "--corpus", corpus, *SMALL)
        folders += ["--series", tmp_path / name]
        assert theodolite("dynamics", name, *given, "--out", tmp_path / name, "--quiet").code == 0
    given = ("reproduce", "dynamics", "--model", model, "--corpus", corpus, "--limit", 30)
    ran = theodolite(*given, "--out", tmp_path / "with", *folders, "--json", "--quiet")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["exhibits"]
    states = {row["name"]: row["state"] for row in rows if not row["edition"]}
    for name in ("fig1", "fig2", "fig3", "attention"):
        assert states[f"dynamics/{name}"] == "drawn"
    page = (tmp_path / "with" / "index.html").read_text()
    assert "../one" in page
    ran = theodolite(*given, "--out", tmp_path / "with", "--json", "--quiet")
    notes = {row["name"]: row["note"] for row in json.loads(ran.out)["exhibits"]}
    assert notes["dynamics/fig2"] == (
        "dynamics/fig2 needs series of checkpoints (`theodolite dynamics`); none was given."
    )
    ran = theodolite(*given, "--out", tmp_path / "with", "--series", tmp_path)
    assert ran.code == 2
    assert "does not contain a series" in ran.err
