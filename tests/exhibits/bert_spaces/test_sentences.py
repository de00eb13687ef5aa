"""The exhibits of trace and groups, read back from their axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.encoder_decoders import saved
from tests.small_models import sentences

from theodolite.errors import InputError
from theodolite.exhibits.bert_spaces.token_paths import MOST_NAMED, choose_named, token_style
from theodolite.exhibits.drawing.style import BLACK
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose
from theodolite.studies.choice import Choice
from theodolite.studies.groups.groups import groups
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData
from theodolite.studies.trace.trace import trace

ONE, OTHER = "the mountain was in the river $5.", "the mountain was in the angle $5."
LONG = " ".join(["the mountain of the country was in the river and the angle of the ridge"] * 2)
GROUPS = {"hills": ["the {mountain|ridge} of the {country|valley}"], "$tools$": ["{measure|angle} the river"]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, small_model: Callable[[str], Path]) -> dict[str, SurveyData]:
    root = tmp_path_factory.mktemp("laboratories")
    ordinary = sentences(5, seed=1)
    trace(small_model("bert"), [ONE, OTHER], out=root / "bert", reference=ordinary)
    trace(saved("T5", root / "model"), [ONE, OTHER], out=root / "t5", reference=ordinary)
    trace(small_model("gpt2"), ONE, out=root / "one")
    groups(small_model("bert"), GROUPS, pooling="first", out=root / "groups", permutations=9)
    trace(small_model("bert"), [LONG, LONG.replace("country", "valley")], out=root / "long", reference=ordinary)
    return {name: read_survey_data(root / name) for name in ("bert", "t5", "one", "groups", "long")}


def test_fig20_draws_every_path_with_and_without_the_last_layer(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/fig20"), [folders["bert"]])
    figure = compose(plate)
    without, whole = figure.axes
    tokens = len(folders["bert"].tables["tokens"])
    for ax, layers in ((without, 3), (whole, 4)):
        paths = [line for line in ax.lines if len(line.get_xdata()) > 1]
        assert len(paths) == tokens
        assert {len(path.get_xdata()) for path in paths} == {layers}
    points = plate.data[plate.data["layers"] == "all"]
    drawn = np.sort(np.concatenate([line.get_xdata() for line in whole.lines]))
    assert drawn == pytest.approx(np.sort(points["x"]))
    assert ONE in plate.caption


def test_fig20_names_some_tokens_of_long_sentences(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/fig20"), [folders["long"]])
    names = [[text.get_text() for text in ax.texts] for ax in compose(plate).axes]
    assert [len(written) for written in names] == [MOST_NAMED] * 2
    assert sorted(names[0]) == sorted(names[1])  # the same tokens in both panels
    tokens = len(folders["long"].tables["tokens"].drop_duplicates(["token", "position"]))
    assert f"{MOST_NAMED} tokens that are far from each other are named, of {tokens}." in plate.caption


def test_the_named_tokens_are_far_from_each_other() -> None:
    x = np.concatenate([np.zeros(30), [5.0, 9.0]])
    points = pd.DataFrame(
        {"layer": 0, "token": [f"t{n}" for n in range(32)], "position": range(32), "x": x, "y": x}
    )
    assert {30, 31} < set(choose_named(points, few=False, most=3).index)


def test_fig22_has_a_style_for_every_token_and_a_legend(folders: dict[str, SurveyData]) -> None:
    figure = compose(make(find("bert-spaces/fig22"), [folders["bert"]]))
    lines = figure.axes[0].lines
    styles = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(styles) == len(lines)
    assert [line.get_color() for line in lines].count(BLACK) == 1  # the mean only
    (legend,) = (legend for part in figure.subfigs for sub in (part, *part.subfigs) for legend in sub.legends)
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[0] == "mean"
    assert len(set(labels)) == len(labels) == len(lines)  # a token that occurs again is numbered
    assert len({token_style(number) for number in range(30)}) == 30


def test_parting_labels_the_strips_and_shows_the_asked_token(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/parting"), [folders["bert"]])
    axes = compose(plate).axes
    for ax in axes:
        assert {text.get_text() for text in ax.texts} == {"different tokens", "same token"}
    chosen = plate.data[plate.data["chosen"]]
    wide = [line for line in axes[1].lines if line.get_linewidth() > 2]
    assert len(wide) == chosen["position"].nunique() > 0
    assert wide[0].get_ydata() == pytest.approx(
        chosen[chosen["position"] == chosen["position"].min()]["cosine"].to_numpy()
    )
    assert f"Wide line: {', '.join(dict.fromkeys(chosen['token']))}." in plate.caption


def test_fig21_draws_the_chosen_tokens(folders: dict[str, SurveyData]) -> None:
    figure = compose(make(find("bert-spaces/fig21"), [folders["bert"]]))
    assert len([line for line in figure.axes[1].lines if line.get_linestyle() != "None"]) == 2


def test_fig22_draws_every_token_of_the_first_sentence(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/fig22"), [folders["bert"]])
    axes = compose(plate).axes
    path = folders["bert"].tables["path"]
    count = path[path["sentence"] == 0]["position"].nunique()
    assert [len(ax.lines) for ax in axes] == [count + 1] * 4  # and the mean
    first = path[(path["sentence"] == 0) & (path["position"] == 0)].sort_values("layer")
    assert axes[2].lines[0].get_ydata() == pytest.approx(first["norm"].to_numpy())
    assert "mean cosine between the steps" in plate.caption


def test_parting_draws_shared_tokens_and_the_reference(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/parting"), [folders["bert"]])
    axes = compose(plate).axes
    shared = plate.data["position"].nunique()
    assert [len(ax.lines) for ax in axes] == [shared + 2] * 2
    assert [len(ax.collections) for ax in axes] == [2, 2]


def test_an_encoder_decoder_has_a_row_for_each_stack(folders: dict[str, SurveyData]) -> None:
    for name, panels in (("fig20", 4), ("fig21", 4), ("fig22", 8), ("parting", 4)):
        plate = make(find(f"bert-spaces/{name}"), [folders["t5"]])
        assert len(compose(plate).axes) == panels
        assert {model.split()[-1] for model in plate.data["model"]} == {"encoder", "decoder"}


def test_fig23_draws_every_sentence_with_and_without_nonsense(folders: dict[str, SurveyData]) -> None:
    plate = make(find("bert-spaces/fig23"), [folders["groups"]], Choice(layers=(2,)))
    without, whole = compose(plate).axes
    assert [sum(len(cloud.get_offsets()) for cloud in ax.collections) for ax in (without, whole)] == [6, 12]
    row = folders["groups"].tables["layers"].query("layer == 2 and population == 'groups'").iloc[0]
    assert f"silhouette {row['silhouette']:.2g}".replace("-", "−") in without.get_title()
    assert "bags of words" in plate.caption


def test_fig23_states_why_it_is_empty(folders: dict[str, SurveyData]) -> None:
    axes = compose(make(find("bert-spaces/fig23"), [folders["groups"]], Choice(layers=(0,)))).axes
    assert [text.get_text() for ax in axes for text in ax.texts] == ["all vectors are equal"] * 2


def test_what_cannot_be_drawn_is_rejected(folders: dict[str, SurveyData]) -> None:
    with pytest.raises(
        InputError, match=r"parting needs two sentences: .* has one; compare two with `theodolite trace"
    ):
        make(find("bert-spaces/parting"), [folders["one"]])
    with pytest.raises(InputError, match="needs folders of `theodolite trace`"):
        make(find("bert-spaces/fig20"), [folders["groups"]])
    with pytest.raises(InputError, match="--layer 9: the survey of"):
        make(find("bert-spaces/fig23"), [folders["groups"]], Choice(layers=(9,)))
    for name in ("fig20", "fig21", "fig22"):  # one sentence is enough for these
        compose(make(find(f"bert-spaces/{name}"), [folders["one"]]))
