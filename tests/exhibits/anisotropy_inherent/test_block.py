"""fig6a to fig10 of anisotropy-inherent: what is drawn, read back from the axes; one folder and several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from tests.exhibits.formats import take_turns
from tests.studies.block.test_block import SMALL, small_bert
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save
from theodolite.studies.block.block import block
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData

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


def test_fig9_separates_rows_by_length_if_masked(surveys: list[SurveyData]) -> None:
    _, axes = drawn("fig9", surveys)
    table = surveys[1].tables["softmax"].query("run == 0 and length == 4")
    assert labelled(axes[3])["4 entries"] == pytest.approx(table["maximum"].to_numpy())
    assert set(labelled(axes[3])) == {"16 entries", "4 entries", "all weights equal"}
    assert set(labelled(axes[0])) == {"12 entries", "all weights equal"}


def test_fig10_omits_short_rows(surveys: list[SurveyData]) -> None:
    plate, _ = drawn("fig10", surveys)
    assert set(plate.data["least_length"]) == {1, 8}
    assert "at least half the maximum length" in plate.caption


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
