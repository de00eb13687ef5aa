"""Series and laboratories in Python: what a notebook shows, figures, summaries, and folders opened again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tests.synthetic_series import make_series

import theodolite
from theodolite.errors import InputError
from theodolite.studies.laboratory import Findings, make_facts
from theodolite.studies.series import Series

STEPS = [0, 1, 10, 100, 1000]


@pytest.fixture(scope="module")
def laboratory() -> Findings:
    """Give the laboratory that needs neither a model nor a corpus."""
    return theodolite.cautions()


def mean_over_blocks(series: Series, column: str, step: int, population: str) -> float:
    """The definition: the mean over layers that are neither embeddings nor a final norm."""
    rows = series.table
    rows = rows[(rows["step"] == step) & (rows["population"] == population)]
    return float(np.mean([row[column] for _, row in rows.iterrows() if row["layer_name"].startswith("block")]))


def test_a_summary_of_a_series_has_one_row_per_step() -> None:
    series = make_series()
    summary = series.summary("without-first")
    assert summary["step"].tolist() == STEPS
    assert summary["checkpoint"].tolist() == [f"checkpoint-{step}" for step in STEPS]
    for column in ("mean_cosine", "anisotropy_svd", "twonn"):
        expected = [mean_over_blocks(series, column, step, "without-first") for step in STEPS]
        np.testing.assert_allclose(summary[column], expected, rtol=1e-12)
    with pytest.raises(InputError, match="without-sinks"):
        series.summary("without-sinks")


def test_series_are_plotted_and_compared_by_step(tmp_path: Path) -> None:
    one, other = make_series("before", seed=1), make_series("after", [0, 50], seed=2)
    figure = one.plot("mean_cosine", population="all")
    assert isinstance(figure, Figure)
    drawn = figure.axes[0].lines[0]
    expected = [mean_over_blocks(one, "mean_cosine", step, "all") for step in STEPS]
    np.testing.assert_allclose(drawn.get_ydata(), expected, rtol=1e-12)
    assert figure.axes[0].get_xlabel() == "training step"
    both = one.compare(other, measures=["twonn"], out=tmp_path / "both.csv")
    assert [text.get_text() for text in both.subfigs[0].legends[0].get_texts()] == ["before", "after"]
    assert both.data.groupby("survey", sort=False).size().to_dict() == {"before": 5, "after": 2}
    assert len(pd.read_csv(tmp_path / "both.csv")) == 7
    with pytest.raises(InputError, match=r"there is no column 'mean_cosin'.*Did you mean 'mean_cosine'"):
        one.plot("mean_cosin")


@pytest.mark.slow
def test_a_series_and_a_laboratory_cannot_be_compared(laboratory: Findings) -> None:
    with pytest.raises(InputError, match="compare needs either surveys or series"):
        theodolite.compare([make_series(), laboratory])


@pytest.mark.slow
def test_a_notebook_shows_a_chart_and_the_summary(laboratory: Findings) -> None:
    series = make_series("<b>bold</b>")
    for found, rows in ((series, len(STEPS)), (laboratory, len(laboratory.tables))):
        html = found._repr_html_()
        assert html.count("<tr") == rows + 1
        assert 'src="data:image/png;base64,' in html
        assert "<b>bold" not in html
    assert repr(series) == "Series('<b>bold</b> on notes.txt': 5 steps, 6 layers)"
    assert repr(laboratory) == f"Findings('cautions': {', '.join(laboratory.tables)})"
    assert "data:image" not in Series.of("tiny", "notes.txt")._repr_html_()


@pytest.mark.slow
def test_a_laboratory_is_plotted_by_its_first_exhibit(laboratory: Findings) -> None:
    pd.testing.assert_frame_equal(laboratory.plot().data, laboratory.exhibit("bert-spaces/fig1").data)
    pd.testing.assert_frame_equal(
        laboratory.plot("bert-spaces/fig3").data, theodolite.exhibit("bert-spaces/fig3", laboratory).data
    )
    own = Findings(make_facts("lengths", None), {"lengths": pd.DataFrame({"letters": [3]})})
    with pytest.raises(InputError, match="There is no exhibit of lengths"):
        own.plot()
    assert own._repr_html_().count("<tr") == 2


@pytest.mark.slow
def test_load_opens_every_kind_of_folder(laboratory: Findings, tmp_path: Path) -> None:
    laboratory.save(tmp_path / "laboratory")
    make_series().write(tmp_path / "series")
    theodolite.measure(np.random.default_rng(0).normal(size=(40, 4)), out=tmp_path / "survey")
    opened = theodolite.load(tmp_path / "laboratory").summary().set_index("table")
    pd.testing.assert_frame_equal(opened, laboratory.summary().set_index("table").sort_index())
    series = theodolite.load(str(tmp_path / "series"))
    assert isinstance(series, Series)
    assert series.name == "tiny on notes.txt"
    assert isinstance(theodolite.load(tmp_path / "survey"), theodolite.Survey)
    page = series.report(tmp_path / "series.md")
    assert "tiny" in page.read_text("utf-8")
    with pytest.raises(InputError, match=r"does not contain a survey: there is no survey\.json"):
        theodolite.load(tmp_path)
