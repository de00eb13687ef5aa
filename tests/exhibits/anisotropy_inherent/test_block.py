"""fig6a to fig10 of anisotropy-inherent: what is drawn, read back from the axes; one folder and several."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from tests.exhibits.formats import take_turns
from tests.studies.block.test_block import SMALL, small_bert
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.cli.block import _first_run
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save
from theodolite.studies.block.block import block
from theodolite.studies.laboratory import Findings
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_scientific

NAMES = [f"anisotropy-inherent/{one}" for one in "fig6a fig6b fig7 fig8 fig9 fig10".split()]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    from transformers import LlamaConfig

    home = tmp_path_factory.mktemp("blocks")
    block(config=small_bert(home / "bert"), out=home / "post", **SMALL)
    LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    ).save_pretrained(home / "llama")
    block(config=str(home / "llama"), out=home / "pre", norms=[0, 0.001, 0.002], **{**SMALL, "length": 16})
    return [home / "post", home / "pre"]


@pytest.fixture(scope="module")
def surveys(folders: list[Path]) -> list[SurveyData]:
    return [read_survey_data(folder, ()) for folder in folders]


def drawn(name: str, surveys: list[SurveyData]) -> tuple[Plate, list[Axes]]:
    plate = make(find(f"anisotropy-inherent/{name}"), surveys)
    return plate, compose(plate).axes


def labelled(ax: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): np.asarray(line.get_ydata()) for line in ax.lines}


@pytest.mark.parametrize(("name", "ending"), take_turns(NAMES, ["png", "svg"]))
def test_each_is_drawn_for_one_and_for_both(
    name: str, ending: str, surveys: list[SurveyData], tmp_path: Path
) -> None:
    found = find(name)
    for kept in (surveys[:1], surveys):
        plate = make(found, kept)
        save(found, plate, tmp_path / f"figure.{ending}")
        assert (tmp_path / f"figure.{ending}").stat().st_size > 1000
        assert set(plate.data["survey"]) == {f"{s.model}, block 1" for s in kept}


def test_fig6_has_both_ends_and_the_fixed_point(surveys: list[SurveyData]) -> None:
    table = surveys[0].tables["norms"]
    first = table[table["run"] == 0]
    _, (ax, _) = drawn("fig6a", surveys)
    assert labelled(ax)["out"] == pytest.approx(first["mean_cosine_out"].to_numpy())
    plate, (post, pre) = drawn("fig6b", surveys)
    assert labelled(post)["norm of mean, in"] == pytest.approx(first["norm_of_mean_in"].to_numpy())
    star = surveys[0].tables["summary"].set_index("quantity").loc["mean_norm", "n_star"]
    assert [line.get_xdata()[0] for line in post.lines if len(line.get_xdata()) == 2] == pytest.approx([star])
    assert "N* = 7.99" in post.texts[0].get_text() or "N* = 8" in post.texts[0].get_text()
    assert pre.texts[0].get_text() == "N*: none in range"
    assert "lowest to highest of 4 runs" in plate.caption


def test_fig6b_draws_no_fixed_point_that_a_run_does_not_have(surveys: list[SurveyData]) -> None:
    summary = surveys[0].tables["summary"]
    some = replace(surveys[0], tables=surveys[0].tables | {"summary": summary.assign(found=3)})
    _, (ax,) = drawn("fig6b", [some])
    assert not [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert ax.texts[0].get_text() == "N*: none in 1 of 4 runs"


def test_fig7_draws_histograms_that_do_not_overlap_with_their_ranges(surveys: list[SurveyData]) -> None:
    plate, axes = drawn("fig7", surveys)
    for ax, (_, table) in zip(axes, plate.data.groupby("survey", sort=False), strict=True):
        drawn_at = [(patch.get_data().baseline, patch.get_data().values.max()) for patch in ax.patches]
        assert len(drawn_at) == table["norm"].nunique()
        for (_, top), (foot, _) in pairwise(drawn_at):
            assert top < foot
        assert drawn_at[-1][1] < ax.get_ylim()[1]
        seen = table[table["height"] > 0.01]
        assert ax.get_xlim()[0] < seen["left"].min() < seen["right"].max() < ax.get_xlim()[1]
        widest = seen[seen["norm"] == seen["norm"].max()]
        ends = [format_scientific(end, 2) for end in (widest["left"].min(), widest["right"].max())]
        assert ax.texts[-1].get_text() == f"N = {format_scientific(seen['norm'].max())}\n{ends[0]} to {ends[1]}"


def test_fig9_has_a_legend_outside_the_panels_with_the_line_of_equal_weights(surveys: list[SurveyData]) -> None:
    figure = compose(make(find("anisotropy-inherent/fig9"), surveys))
    figure.draw_without_rendering()
    parts = figure.subfigs[0].subfigs
    found = [[text.get_text() for text in part.legends[0].get_texts()] for part in parts]
    assert found == [
        ["rows of 12 entries", "all weights equal"],
        ["rows of 16 entries", "rows of 4 entries", "all weights equal"],
    ]
    for part in parts:
        legend = part.legends[0].get_window_extent()
        assert not any(legend.overlaps(ax.get_window_extent()) for ax in part.axes)
        assert all(ax.get_legend() is None for ax in part.axes)


def test_fig9_separates_rows_by_length_if_masked(surveys: list[SurveyData]) -> None:
    _, axes = drawn("fig9", surveys)
    table = surveys[1].tables["softmax"].query("run == 0 and length == 4")
    assert labelled(axes[3])["4 entries"] == pytest.approx(table["maximum"].to_numpy())
    assert set(labelled(axes[3])) == {"16 entries", "4 entries", "all weights equal"}
    assert set(labelled(axes[0])) == {"12 entries", "all weights equal"}


def test_fig10_omits_short_rows(surveys: list[SurveyData]) -> None:
    plate, axes = drawn("fig10", surveys)
    assert set(plate.data["least_length"]) == {1, 8}
    assert "at least half the maximum length" in plate.caption
    equal = [
        [line.get_ydata()[0] for line in ax.lines if line.get_label() == "all weights equal"] for ax in axes[:2]
    ]
    assert equal == [[1 / 12], [1 / 16, 1 / 8]]  # masked rows have 8 to 16 entries


def test_the_spread_of_scores_is_that_of_all_heads(surveys: list[SurveyData]) -> None:
    """The mean of the deviations within heads would miss the differences between heads."""
    scores = surveys[0].tables["scores"].query("run == 0").copy()
    scores["mean"] += scores["head"]  # as if heads had very different scores
    found = Findings(surveys[0].facts, {**surveys[0].tables, "scores": scores})
    shown = _first_run(found).set_index("norm")["s.d."]
    for norm, heads in scores.groupby("norm"):
        second = (heads["sd"] ** 2 + heads["mean"] ** 2).mean()
        assert shown[norm] == pytest.approx(np.sqrt(second - heads["mean"].mean() ** 2))
        assert shown[norm] > 1.5 * heads["sd"].mean()


def test_a_survey_is_not_a_block(surveys: list[SurveyData]) -> None:
    with pytest.raises(InputError, match="theodolite block --config bert-base --out DIR"):
        make(find(NAMES[0]), [SurveyData({**surveys[0].facts, "laboratory": "weights"})])


def test_the_verb_prints_a_table_and_the_fixed_points(tmp_path: Path) -> None:
    config = small_bert(tmp_path / "config")
    arguments = ["block", "--config", config, "--sequences", "2", "--length", "8", "--seeds", "1", "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--norms", "0,4,16"])
    assert result.exit_code == 0, result.output
    assert "N* (mean norm): 7.9" in result.stdout or "N* (mean norm): 8" in result.stdout
    assert "closed form" in result.stdout
    result = CliRunner().invoke(app, [*arguments, "--norms", "0,1", "--json"])
    assert '"reason": "none in range"' in result.stdout
    result = CliRunner().invoke(app, [*arguments, "--norms", "0,a"])
    assert isinstance(result.exception, InputError)
