"""theodolite report: what it reads, writes and rejects."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from theodolite.api.report import find_folders, read_inputs
from theodolite.cli.report import choose_output
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, make_facts
from theodolite.studies.series import Series
from theodolite.surveys.folder import open_tables


@pytest.fixture(scope="module")
def made(tmp_path_factory, model, corpus) -> Path:
    from theodolite import survey

    folder = tmp_path_factory.mktemp("made") / "tiny"
    survey(str(model), str(corpus), out=folder, limit=40, sample_size=64)
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


def test_a_folder_of_several_surveys_is_read_completely_and_sorted_by_name(theodolite, several):
    assert [each.name for each in find_folders(several)] == ["step-9", "step-10"]
    assert len(read_inputs([several], print).surveys) == 2
    assert "# 2 surveys" in theodolite("report", several, "--out", "-").out
    several.rename(several.parent / "surveys")
    assert len(read_inputs([several.parent], print).surveys) == 2  # as `theodolite reproduce` leaves them


def test_an_unfinished_survey_among_several_is_skipped_with_a_warning(theodolite, several, tmp_path):
    (several / "notes" / "unfinished.json").write_text("{}")
    ran = theodolite("report", several, "--out", tmp_path / "new" / "report.md")
    assert ran.code == 0
    assert f"Skipped {several / 'notes'}: the survey is unfinished. Run its command again with --resume" in ran.err
    alone = theodolite("report", several / "notes", "--out", tmp_path / "alone.md")
    assert alone.code == 2
    assert "notes contains an unfinished survey. Run its command again with --resume" in alone.err


def test_the_file_extension_must_match_a_format(theodolite, several, tmp_path):
    ran = theodolite("report", several, "--out", tmp_path / "report.pdf")
    assert ran.code == 2
    assert "must end in .html or .md (got .pdf)" in ran.err


def test_a_series_is_reported_in_markdown(theodolite, trained, made, tmp_path):
    found = read_inputs([trained, made], print)
    assert (len(found.surveys), len(found.series)) == (1, 1)
    assert "step" in found.series[0].table.columns
    assert "measured at 2 steps, 0 to 10" in theodolite("report", trained, "--out", "-").out
    page = theodolite("report", trained, made, "--out", tmp_path / "page.html")
    assert page.code == 0, page.err


def test_laboratories_are_omitted_from_markdown_with_a_warning(theodolite, made, tmp_path):
    Findings(make_facts("cautions", None), {}).save(tmp_path / "laboratory")
    assert len(read_inputs([tmp_path / "laboratory"], print).laboratories) == 1
    alone = theodolite("report", tmp_path / "laboratory", "--out", "-")
    assert alone.code == 2
    assert "laboratories but no survey or series, which Markdown requires; write an .html file" in alone.err
    beside = theodolite("report", made, tmp_path / "laboratory", "--out", "-")
    assert beside.code == 0
    assert "Omitted 1 laboratory" in beside.err


def test_empty_and_missing_folders_are_rejected(theodolite, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = theodolite("report", tmp_path / "empty", "--out", "-")
    assert ran.code == 2
    assert "empty does not contain a survey: there is no survey.json in it or in its subfolders" in ran.err
    assert "is not a folder" in theodolite("report", tmp_path / "nowhere", "--out", "-").err


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
def test_format_and_file_name_determine_each_other(out, form, kind, file):
    assert choose_output(None if out is None else Path(out), form) == (kind, Path(file))


@pytest.mark.parametrize(
    ("out", "form", "words"),
    [
        ("a.html", "md", "--out a.html ends in .html, but --format is md"),
        ("a.md", "html", "or let --out end in .html"),
        ("-", "html", "--out - prints Markdown only"),
        (None, "markdown", "--format 'markdown' is not one of html, md"),
        (".", "md", "is a folder; give a file, such as report.md"),
    ],
)
def test_contradictory_options_are_rejected(out, form, words):
    with pytest.raises(InputError) as error:
        choose_output(None if out is None else Path(out), form)
    assert words in str(error.value)
