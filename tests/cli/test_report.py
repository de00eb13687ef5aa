"""theodolite report: what it reads, what it writes and what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from theodolite.cli.report import chosen
from theodolite.cli.reported import read_all, spread
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, facts_of
from theodolite.studies.series import Series
from theodolite.surveys.folder import open_tables


@pytest.fixture(scope="module")
def made(tmp_path_factory, model, corpus) -> Path:
    from theodolite import survey

    folder = tmp_path_factory.mktemp("made") / "tiny"
    survey(str(model), str(corpus), out=folder, limit=40)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, made) -> Path:
    facts, tables = open_tables(made, ["layers"])
    series = Series.of(facts["model"], facts["corpus"])
    for step in (0, 10):
        series.append(step, f"step {step}", f"{step}", tables["layers"])
    return series.write(tmp_path_factory.mktemp("series") / "series")


@pytest.fixture
def several(made, tmp_path) -> Path:
    for name in ("step-10", "step-9", "notes"):
        (tmp_path / "several" / name).mkdir(parents=True)
    for name in ("step-10", "step-9"):
        shutil.copytree(made, tmp_path / "several" / name, dirs_exist_ok=True)
    return tmp_path / "several"


def test_markdown_is_written_or_printed(theodolite, made, tmp_path):
    ran = theodolite("report", made, "--out", tmp_path / "deep" / "er" / "report.md")
    assert ran.code == 0, ran.err
    assert ran.out.strip() == f"report: {tmp_path / 'deep' / 'er' / 'report.md'}"
    written = (tmp_path / "deep" / "er" / "report.md").read_text("utf-8")
    printed = theodolite("report", made, "--format", "md", "--out", "-")
    assert printed.out == written
    assert written.startswith("# ")
    assert "## Findings" in written


def test_the_file_is_named_for_the_format(theodolite, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert theodolite("report", made, "--format", "md").out.strip() == "report: report.md"
    assert theodolite("report", made).out.strip() == "report: report.html"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "report.md"]


def test_a_folder_of_several_is_taken_whole_in_the_order_of_names(theodolite, several):
    assert [each.name for each in spread(several)] == ["step-9", "step-10"]
    assert len(read_all([several], print).surveys) == 2
    assert "# 2 surveys" in theodolite("report", several, "--out", "-").out
    several.rename(several.parent / "surveys")
    assert len(read_all([several.parent], print).surveys) == 2  # as `theodolite reproduce` leaves them


def test_an_unfinished_survey_among_several_is_not_left_out_unsaid(theodolite, several, tmp_path):
    (several / "notes" / "unfinished.json").write_text("{}")
    ran = theodolite("report", several, "--out", tmp_path / "new" / "report.md")
    assert ran.code == 0
    assert "notes is unfinished and left out; run its command again with --resume" in " ".join(ran.err.split())
    alone = theodolite("report", several / "notes", "--out", tmp_path / "alone.md")
    assert alone.code == 2
    assert "notes holds an unfinished survey; run its command again with --resume" in alone.err


def test_a_report_ends_in_what_it_is(theodolite, several, tmp_path):
    ran = theodolite("report", several, "--out", tmp_path / "report.pdf")
    assert ran.code == 2
    assert "end in .html or .md, not in .pdf" in ran.err


def test_a_series_is_told_in_markdown(theodolite, trained, made, tmp_path):
    found = read_all([trained, made], print)
    assert (len(found.surveys), len(found.series)) == (1, 1)
    assert "step" in found.series[0].table.columns
    assert "read at 2 steps, 0 to 10" in theodolite("report", trained, "--out", "-").out
    page = theodolite("report", trained, made, "--out", tmp_path / "page.html")
    assert page.code == 0, page.err


def test_laboratories_are_left_to_the_page_and_that_is_said(theodolite, made, tmp_path):
    Findings(facts_of("cautions", None), {}).save(tmp_path / "laboratory")
    assert len(read_all([tmp_path / "laboratory"], print).laboratories) == 1
    alone = theodolite("report", tmp_path / "laboratory", "--out", "-")
    assert alone.code == 2
    assert "laboratories alone, and no survey or series: --format html shows them" in alone.err
    beside = theodolite("report", made, tmp_path / "laboratory", "--out", "-")
    assert beside.code == 0
    assert "1 laboratory left out" in beside.err


def test_nothing_and_nowhere_are_refused(theodolite, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = theodolite("report", tmp_path / "empty", "--out", "-")
    assert ran.code == 2
    assert "empty holds no survey, and no folder in it does" in ran.err
    assert "is no folder" in theodolite("report", tmp_path / "nowhere", "--out", "-").err


@pytest.mark.parametrize(
    ("out", "form", "kind", "file"),
    [
        (None, None, "html", "report.html"),
        (None, "md", "md", "report.md"),
        ("-", None, "md", "-"),
        ("-", "md", "md", "-"),
        ("a.MD", None, "md", "a.MD"),
        ("a.htm", "html", "html", "a.htm"),
        ("comment.txt", "md", "md", "comment.txt"),
        ("page", None, "html", "page"),
    ],
)
def test_format_and_file_tell_each_other(out, form, kind, file):
    assert chosen(None if out is None else Path(out), form) == (kind, Path(file))


@pytest.mark.parametrize(
    ("out", "form", "words"),
    [
        ("a.html", "md", "--out a.html ends in .html, but --format is md"),
        ("a.md", "html", "or end in .html"),
        ("-", "html", "--out - prints Markdown only"),
        (None, "markdown", "--format 'markdown' is not one of html, md"),
        (".", "md", "is a folder; give the name of a file, such as report.md"),
    ],
)
def test_what_contradicts_itself_is_refused(out, form, words):
    with pytest.raises(InputError) as refused:
        chosen(None if out is None else Path(out), form)
    assert words in str(refused.value)
