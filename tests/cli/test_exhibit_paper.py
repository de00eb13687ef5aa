"""theodolite exhibit PAPER: all of a paper that finished surveys allow, and why the others were not drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import Ran, Theodolite

import theodolite as package
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction import draw_paper

PAPER = "norm-variance"


@pytest.fixture
def by_id(finished: Path) -> Path:
    return finished


@pytest.fixture(scope="module")
def by_word(tmp_path_factory: pytest.TempPathFactory, model: Path, corpus: Path) -> Path:
    out = tmp_path_factory.mktemp("surveys") / "by-word"
    package.survey(model, corpus, units="word", out=out, sample_size=64)
    return out


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep one exhibit of each kind: with and without a choice, of words, of token sets, a table; all quick."""
    kept = {f"{PAPER}/{id_}" for id_ in ("fig1", "fig6", "fig9", "fig22", "table1")}
    known = {name: found for name, found in all_exhibits().items() if name in kept}
    monkeypatch.setattr(draw_paper, "all_exhibits", lambda: known)


def lines(ran: Ran, start: str) -> list[str]:
    return [line for line in ran.out.splitlines() if line.startswith(start)]


def test_exhibits_are_drawn_if_the_surveys_allow_and_others_are_listed(
    few: None, theodolite: Theodolite, by_id: Path, tmp_path
):
    out = tmp_path / "figs"
    ran = theodolite("exhibit", PAPER, by_id, "--out", out)
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith(("fig", "table"))] == [
        f"{id_}: {out / id_}.png" for id_ in ("fig6", "fig9", "table1")
    ]
    missing = lines(ran, "not drawn: ")
    assert re.fullmatch(r"not drawn: fig1: needs token sets .*: the survey of \S+ has no token sets", missing[0])
    by_word = r"not drawn: fig22: needs .*`--units word`: the units of .* are vocabulary ids, not words"
    assert re.fullmatch(by_word, missing[1])
    assert ran.out.splitlines()[-1] == f"3 of 5 exhibits of {PAPER} drawn; index: {out / 'index.html'}"
    assert "drawing 2 of 5: fig6" in ran.err
    ids = {"fig6": ("png", "svg", "csv"), "fig9": ("png", "svg", "csv"), "table1": ("png", "md", "csv")}
    expected = {f"{id_}.{ending}" for id_, endings in ids.items() for ending in endings}
    assert {path.name for path in out.iterdir()} == expected | {"index.html", "index.json"}


def test_the_page_has_every_exhibit_and_no_broken_links(few: None, theodolite, by_id, tmp_path):
    assert theodolite("exhibit", PAPER, by_id, "--out", tmp_path / "figs", "--format", "svg").code == 0
    page = (tmp_path / "figs" / "index.html").read_text("utf-8")
    assert all(f'id="{id_}"' in page for id_ in ("fig1", "fig6", "fig9", "fig22", "table1"))
    links = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert "fig6.svg" in links
    assert all((tmp_path / "figs" / link).is_file() for link in links)  # a survey without a report is no link
    index = json.loads((tmp_path / "figs" / "index.json").read_text("utf-8"))
    assert {row["name"]: row["state"] for row in index["exhibits"]}[f"{PAPER}/fig22"] == "not drawn"


def test_an_option_applies_to_the_exhibits_that_use_it(few: None, theodolite, by_id, tmp_path):
    out = tmp_path / "figs"
    ran = theodolite("exhibit", PAPER, by_id, "--out", out, "--format", "png", "--population", "without-first")
    assert ran.code == 0
    assert lines(ran, "drawn without") == ["drawn without --population, which these exhibits ignore: fig9, table1"]
    assert set(pd.read_csv(out / "fig6-without-first.csv")["population"]) == {"without-first"}
    assert {path.name for path in out.glob("*.png")} == {"fig6-without-first.png", "fig9.png", "table1.png"}


@pytest.mark.slow
def test_word_surveys_are_used_for_word_exhibits(few: None, theodolite, by_id, by_word, tmp_path, monkeypatch):
    ran = theodolite("exhibit", PAPER, by_id, by_word, "--out", tmp_path / "both", "--format", "png")
    assert ran.code == 0
    assert lines(ran, "used only for exhibits of words") == [
        f"used only for exhibits of words, because the model was also surveyed by tokens: {by_word}"
    ]
    assert pd.read_csv(tmp_path / "both" / "fig6.csv")["survey"].nunique() == 1
    assert (tmp_path / "both" / "fig22.png").is_file()
    monkeypatch.setattr(draw_paper, "all_exhibits", lambda: {f"{PAPER}/fig6": all_exhibits()[f"{PAPER}/fig6"]})
    ran = theodolite("exhibit", PAPER, by_word, "--out", tmp_path / "words", "--format", "png")
    assert "used only for exhibits of words" not in ran.out
    assert (tmp_path / "words" / "fig6.png").is_file()


def test_one_of_two_surveys_of_a_model_is_skipped(theodolite, by_id, model, corpus, tmp_path, monkeypatch):
    name, richer, out = "anisotropy-inherent/contextuality", tmp_path / "richer", tmp_path / "figs"
    package.survey(model, corpus, out=richer, sample_size=64, contextuality=True)
    monkeypatch.setattr(draw_paper, "all_exhibits", lambda: {name: all_exhibits()[name]})
    ran = theodolite("exhibit", "anisotropy-inherent", by_id, richer, "--out", out, "--format", "png")
    assert ran.code == 0
    (drawn,) = lines(ran, "contextuality: ")
    assert re.search(r"\(\S+ on texts\.txt, id \(1\) is skipped: the survey of .* was made without it\)$", drawn)
    shown = set(pd.read_csv(out / "contextuality.csv")["survey"])
    assert len([name for name in shown if "Ethayarajh" not in name]) == 1  # beside what that paper found


def test_a_paper_is_drawn_partly_if_surveys_allow_only_a_part(theodolite, by_id, tmp_path):
    out = tmp_path / "figs"
    ran = theodolite("exhibit", "dynamics", by_id, "--out", out, "--format", "pdf", "--no-caption")
    assert ran.code == 0
    assert (out / "fig1.pdf").read_bytes().startswith(b"%PDF")
    assert lines(ran, "not drawn: ")[0].startswith(
        "not drawn: fig2, fig3, attention, batches, training: needs series of checkpoints"
    )
    assert "<img" not in (out / "index.html").read_text("utf-8")  # no format that a page shows


def test_drawing_nothing_is_a_user_error_and_writes_nothing(theodolite, by_id, tmp_path):
    ran = theodolite("exhibit", "bert-spaces", by_id, "--out", tmp_path / "figs")
    assert ran.code == 2
    assert "None of the 32 exhibits of bert-spaces can be drawn from these folders." in ran.err
    assert "fig23: needs folders of `theodolite groups`; none was given\n" in ran.out
    assert not list(tmp_path.iterdir())


def test_a_failing_exhibit_does_not_affect_others(few: None, theodolite, by_id, tmp_path, monkeypatch):
    def broken(surveys: object, choice: object) -> None:
        raise ZeroDivisionError("a <b> too many")

    bad = Exhibit(f"{PAPER}/broken", "Broken", "figure", broken, reads=())  # type: ignore[arg-type]
    known = draw_paper.all_exhibits()
    monkeypatch.setattr(
        draw_paper, "all_exhibits", lambda: {bad.name: bad, f"{PAPER}/fig9": known[f"{PAPER}/fig9"]}
    )
    ran = theodolite("exhibit", PAPER, by_id, "--out", tmp_path / "figs", "--format", "png")
    assert ran.code == 1
    assert "1 of 2 exhibits of norm-variance drawn, 1 failed (broken)." in ran.err
    assert "not drawn: broken: Drawing it failed (ZeroDivisionError: a <b> too many)" in ran.out
    assert (tmp_path / "figs" / "fig9.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{}"], "--out is missing; give a folder for the figures, such as --out norm-variance-figures."),
        (["{}", "--out", "a.pdf"], "norm-variance is a paper, so give a folder for its figures"),
        (["{}", "--out", "{}"], "is the folder of a survey or a study; give another one"),
        (["{}", "--out", "figs", "--data", "a.csv"], "--data requires a single exhibit"),
        (["{}", "--out", "figs", "--format", "jpg"], "--format 'jpg' is not one of png, svg, pdf"),
        (["{}", "--out", "figs", "--steps", "log"], "--steps is not supported by any exhibit of norm-variance"),
        (["{}", "--out", "figs", "--population", "none"], "--population 'none': the survey of"),
        (["{}", "--out", "figs", "--layer", "99"], "--layer 99: the survey of"),
        (["nowhere", "--out", "figs"], "nowhere is not a folder"),
    ],
)
def test_errors_are_reported_before_anything_is_drawn(theodolite, by_id, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    ran = theodolite("exhibit", PAPER, *(argument.format(by_id) for argument in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"paper": "dynamics", "exhibits": []}, "already holds dynamics; give another folder"),
        ({"paper": PAPER, "exhibits": [{"files": {"png": "figures/a.png"}}]}, "holds a reproduction of norm-var"),
        (["mine"], "holds an index.json of something else"),
    ],
)
def test_another_page_is_not_overwritten(theodolite, by_id, tmp_path, held, words):
    (tmp_path / "index.json").write_text(json.dumps(held))
    ran = theodolite("exhibit", PAPER, by_id, "--out", tmp_path)
    assert ran.code == 2
    assert words in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]
