"""theodolite reproduce anisotropy-inherent and dynamics, from surveys of text models only."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest
from tests.small_models import make

from theodolite.exhibits.drawing.style import RC
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction import drawing, reproduce
from theodolite.reproduction.laboratories import EXPERIMENTS
from theodolite.reproduction.plan import plan_editions
from theodolite.studies.block.block import block

QUICK = ("fig1", "fig2", "fig6a")  # a figure of surveys, one of other models, one of a laboratory


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pictures of one format: what is tested is which are drawn."""
    monkeypatch.setattr(drawing, "ENDINGS", {"figure": ("png",), "table": ("png",)})
    monkeypatch.setitem(RC, "savefig.dpi", 30)
    # So small a vocabulary would pass for one of characters.
    monkeypatch.setattr("theodolite.surveys.text_survey.token_level", lambda tokenizer: "token", raising=False)
    small = {"sequences": 1, "length": 12, "seeds": 1, "directions": 1, "norms": (0.0, 5.0, 20.0)}
    monkeypatch.setitem(EXPERIMENTS, "block", lambda model, _, listener: block(config=model, **small))


@pytest.mark.slow
def test_a_laboratory_is_run_for_the_exhibits_that_need_it(theodolite, model, corpus, tmp_path, monkeypatch):
    paper = "anisotropy-inherent"
    kept = {name: found for name, found in all_exhibits().items() if name in {f"{paper}/{id_}" for id_ in QUICK}}
    monkeypatch.setattr(reproduce, "all_exhibits", lambda: kept)
    options = ["--corpus", corpus, "--limit", 30, "--out", tmp_path / "out", "--json", "--quiet"]
    ran = theodolite("reproduce", paper, "--model", model, *options)
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)
    states = {(row["name"], row["edition"]): row["state"] for row in printed["exhibits"]}
    assert states[f"{paper}/fig1", ""] == states[f"{paper}/fig1", "without-first"] == "drawn"
    assert states[f"{paper}/fig6a", ""] == "drawn"
    assert states[f"{paper}/fig2", ""] == "not drawn"
    assert [row["laboratory"] for row in printed["laboratories"]] == ["block"]


@pytest.mark.slow
def test_both_papers_are_drawn_from_one_command_each(theodolite, tmp_path_factory, corpus):
    root = tmp_path_factory.mktemp("papers")
    models = [make("bert", root / "bert"), make("llama", root / "llama")]
    given = [part for model in models for part in ("--model", model)]
    for paper in ("anisotropy-inherent", "dynamics"):
        out = root / paper
        if paper == "dynamics":  # which finds the other's surveys finished
            shutil.copytree(root / "anisotropy-inherent" / "surveys", out / "surveys")
        options = ["--corpus", corpus, "--limit", 60, "--out", out, "--json", "--quiet"]
        ran = theodolite("reproduce", paper, *given, *options)
        assert ran.code == 0, ran.err
        printed = json.loads(ran.out)
        assert {survey["units"] for survey in printed["surveys"]} == {"id"}
        states = {
            (row["name"], row["edition"]): "drawn" if row["same_as"] else row["state"]
            for row in printed["exhibits"]
        }
        notes = {row["name"]: row["note"] for row in printed["exhibits"] if row["state"] == "not drawn"}
        if paper == "dynamics":
            assert states["dynamics/fig1", ""] == states["dynamics/fig1-populations", ""] == "drawn"
        else:
            for figure in ("fig1", "fig5", "fig11", "drift"):
                for edition in ("", "without-first", "without-massive"):
                    assert states[f"{paper}/{figure}", edition] == "drawn"
            assert states[f"{paper}/fig1", "by-depth"] == "drawn"
            # Exhibits of other models are reported once, with a command, and not tried in other editions.
            for figure, words in (("fig2", "byt5"), ("fig3", "whisper"), ("fig4", "resnet")):
                assert words in notes[f"{paper}/{figure}"]
                assert [key for key in states if key[0] == f"{paper}/{figure}"] == [(f"{paper}/{figure}", "")]
            assert "--contextuality" in notes[f"{paper}/contextuality"]
            assert states[f"{paper}/fig6a", ""] == states[f"{paper}/fig10", ""] == "drawn"
            assert [row["laboratory"] for row in printed["laboratories"]] == ["block"]
        assert "failed" not in states.values()
    drawn = pd.read_csv(root / "anisotropy-inherent" / "figures" / "fig1-without-first.csv")
    assert set(drawn["population"]) == {"without-first"}
    assert drawn["survey"].nunique() == 2


def test_editions_beyond_the_paper_are_populations_and_depth():
    stems = {edition.stem for edition in plan_editions("anisotropy-inherent", all_exhibits().values())}
    assert {"fig1", "fig1-without-first", "fig1-without-massive", "fig1-by-depth", "fig5-without-first"} <= stems
    assert "fig1-unbiased" not in stems
    stems = {edition.stem for edition in plan_editions("dynamics", all_exhibits().values())}
    assert {"fig1", "fig1-without-first", "fig1-without-massive", "fig1-populations"} <= stems
