"""Python names for the commands that draw and write, with surveys in memory and in folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tests.shared import shared_folder
from tests.small_models import sentences

import theodolite
from theodolite.errors import InputError

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def folder(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> None:
        theodolite.survey(small_model("bert"), sentences(40), out=root / "survey", sample_size=64)

    return shared_folder(tmp_path_factory, "survey-for-figures", make) / "survey"


@pytest.fixture(scope="module")
def in_memory(small_model: Any) -> theodolite.Survey:
    return theodolite.survey(small_model("bert"), sentences(40), sample_size=64)


def test_an_exhibit_is_a_figure_with_its_numbers(folder: Path, tmp_path: Path) -> None:
    figure = theodolite.exhibit("norm-variance/fig4", folder, out=tmp_path / "fig4.svg", population="all")
    assert isinstance(figure, Figure)
    assert (tmp_path / "fig4.svg").read_bytes().startswith(b"<?xml")
    assert figure.caption
    assert len(figure.data)
    assert figure._repr_png_().startswith(PNG)


def test_a_survey_in_memory_draws_the_numbers_of_its_folder(folder: Path, in_memory: theodolite.Survey) -> None:
    one = in_memory.exhibit("norm-variance/fig5", population="all")
    other = theodolite.load(folder).exhibit("norm-variance/fig5", population="all")
    pd.testing.assert_frame_equal(one.data, other.data)


def test_methods_plot_and_compare(folder: Path, in_memory: theodolite.Survey, tmp_path: Path) -> None:
    figure = in_memory.plot("mean_cosine", "effective_rank", population="all")
    row = in_memory.layers.query("population == 'all'")
    assert np.allclose(sorted(figure.data["mean_cosine"]), sorted(row["mean_cosine"]))
    both = in_memory.compare(folder, measures="q", out=tmp_path / "q.csv")
    assert both.data.iloc[:, 0].nunique() == 2
    assert len(pd.read_csv(tmp_path / "q.csv")) == len(both.data)
    assert isinstance(theodolite.compare([folder, in_memory]), Figure)


def test_a_report_about_surveys_in_memory_and_folders(
    folder: Path, in_memory: theodolite.Survey, tmp_path: Path
) -> None:
    page = theodolite.report([folder, in_memory], tmp_path / "report.html")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    text = in_memory.report(tmp_path / "report.md").read_text("utf-8")
    assert "mean cosine" in text.lower()
    with pytest.raises(InputError, match=r"out: .*report\.txt must end in \.html or \.md"):
        theodolite.report(folder, tmp_path / "report.txt")


def test_a_table_is_written_for_latex(folder: Path, tmp_path: Path) -> None:
    theodolite.exhibit("norm-variance/sums", folder, out=tmp_path / "sums.tex")
    text = (tmp_path / "sums.tex").read_text("utf-8")
    assert text.startswith(r"\begin{table}")
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\caption{"))
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({line.count(" & ") for line in rows}) == 1
    assert not any(sign in text.replace(rf"\{sign}", "") for sign in "%#$")


def test_summary_and_notebook_view_have_one_row_per_layer(in_memory: theodolite.Survey) -> None:
    summary = in_memory.summary()
    assert len(summary) == len(in_memory.facts["layers"])
    html = in_memory._repr_html_()
    assert html.count("<tr") == len(summary) + 1
    assert 'src="data:image/png;base64,' in html


@pytest.mark.parametrize("name", theodolite.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    assert getattr(theodolite, name).__doc__


def test_load_is_open(folder: Path) -> None:
    assert theodolite.load is theodolite.open


def test_labels_are_the_names_in_legends_and_reports(small_model: Any, tmp_path: Path) -> None:
    made = [
        theodolite.survey(small_model("bert"), sentences(30), sample_size=64, label=label, out=tmp_path / label)
        for label in ("before", "after")
    ]
    figure = theodolite.compare([tmp_path / "before", made[1]], "q")
    assert set(figure.data.iloc[:, 0]) == {"before", "after"}
    assert made[0].name == "before"
    assert theodolite.load(tmp_path / "after").name == "after"
    page = theodolite.report(made, tmp_path / "report.md").read_text("utf-8")
    assert "before" in page
    assert "after" in page
    vectors = theodolite.measure(np.random.default_rng(0).normal(size=(50, 4)), label="stored in May")
    assert vectors.name == "stored in May"
