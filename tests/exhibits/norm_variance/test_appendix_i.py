"""appendix-i, its spread, and fig21: what is printed and drawn, against the numbers behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch
from tests.exhibits.formats import take_turns
from tests.synthetic_surveys import add_norms, make_survey, remove_units

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.norm_variance.norm_placement import TOPS
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save, to_markdown
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.layer_norm import (
    PLACEMENT_LABELS,
    PLACEMENT_STEPS,
    make_placement_table,
    predict_q,
    q_spread,
)
from theodolite.studies.survey_data import SurveyData

TABLE, SPREAD, PLACES = (find(f"norm-variance/{name}") for name in ("appendix-i", "appendix-i-spread", "fig21"))
BERT = add_norms(make_survey("bert"), {0: "LayerNorm", 1: "LayerNorm", 2: "LayerNorm"}).survey
LLAMA = add_norms(make_survey("llama", layers=6, final_norm=True), {5: "RMSNorm"}, placement="pre").survey


def test_the_table_has_every_layer_and_prints_those_that_leave_a_norm() -> None:
    plate = make(TABLE, [BERT, LLAMA])
    assert plate.data["layer"].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert plate.data["predicted_q"].notna().tolist() == [True] * 3 + [False] * 5 + [True]
    mine = predict_q(BERT)
    assert plate.data["measured_q"][:3].to_numpy() == pytest.approx(mine["measured_q"].to_numpy())
    lines = to_markdown(plate).splitlines()
    assert len([line for line in lines if line.startswith("| bert")]) == 3
    llama = [line for line in lines if line.startswith("| llama")]
    assert len(llama) == 2
    assert "| 0–4 | embeddings … block 4 | none |" in llama[0]
    assert "| 5 | final norm | RMSNorm |" in llama[1]
    assert f"{mine['ratio'][1]:.3g}" in lines[3]
    assert "The vector of a word" not in plate.caption


def test_headings_say_what_is_predicted_and_measured_and_do_not_touch() -> None:
    plate = make(TABLE, [BERT, LLAMA])
    head = to_markdown(plate).splitlines()[0]
    assert "| predicted Q, ‖γ‖²+‖β‖² | measured Q | measured/ predicted | sum 1, Σγ²(E z²−1) |" in head
    assert "| coordinates with γ≈0 | their share of ‖z‖² |" in head
    figure = compose(plate)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])
    lines = figure.axes[1].get_legend().get_texts()
    assert [line.get_text() for line in lines] == ["embeddings", "block 1", "block 2", r"$\propto n^{-1/2}$"]


def test_word_surveys_are_mentioned_in_the_caption() -> None:
    words = SurveyData(BERT.facts | {"units": "word"}, BERT.tables)
    assert (
        "The vector of a word is the mean over its tokens, which is not the output of a norm."
        in make(TABLE, [words]).caption
    )


def test_the_spread_is_drawn_as_it_is() -> None:
    plate = make(SPREAD, [BERT, LLAMA])
    axes = compose(plate).axes
    assert len(axes) == 2
    for ax, survey, layers in zip(axes, (BERT, LLAMA), ([0, 1, 2], [5]), strict=True):
        drawn = [line for line in ax.lines if line.get_marker() != "None"]
        assert [line.get_label() for line in drawn] == [survey.layer_names[layer] for layer in layers]
        for line, layer in zip(drawn, layers, strict=True):
            known = q_spread(survey, layer, Choice()).dropna(subset="q_sd")
            assert line.get_xydata() == pytest.approx(known[["n", "q_sd"]].to_numpy())
        (dashed,) = (line for line in ax.lines if line.get_marker() == "None")
        assert dashed.get_ydata() == pytest.approx(
            q_spread(survey, layers[0], Choice()).dropna(subset="q_sd")["root_n"].to_numpy()
        )
    assert sorted(set(plate.data["survey"])) == ["bert", "llama"]
    only = make(SPREAD, [BERT], Choice(layers=(2,)))
    assert set(only.data["layer"]) == {2}


def test_at_most_seven_lines() -> None:
    deep = add_norms(make_survey("deep", layers=25), dict.fromkeys(range(25), "LayerNorm")).survey
    assert sorted(set(make(SPREAD, [deep]).data["layer"])) == [0, 4, 8, 12, 16, 20, 24]


def test_the_spread_of_a_model_without_normed_states_is_rejected() -> None:
    bare = add_norms(make_survey("gpt2"), {}, placement="pre").survey
    with pytest.raises(
        InputError,
        match=r"no surveyed state of gpt2 is the output of a norm; .* `theodolite survey gpt2 --corpus",
    ):
        make(SPREAD, [bare])
    plate = make(TABLE, [bare])
    assert "| none |" in to_markdown(plate)


@pytest.mark.parametrize("word", [*PLACEMENT_LABELS, None])
def test_a_block_is_drawn_with_its_norms_in_place(word: str | None) -> None:
    survey = add_norms(make_survey("tiny"), placement=word).survey
    plate = make(PLACES, [survey])
    (ax,) = compose(plate).axes
    texts = [text.get_text() for text in ax.texts if text.get_text()]
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    if word is None:
        assert texts == ["unknown"]
        assert not boxes
        return
    steps = PLACEMENT_STEPS[word]
    for kind in ("ATTN", "FF", "RES"):
        assert sum(text.startswith(kind) for text in texts) == steps.count(kind)
    assert sum(text.startswith("LN") for text in texts) == steps.count("LN")
    assert len(boxes) == steps.count("LN") + 2
    assert PLACEMENT_LABELS[word] in ax.get_title()
    assert "tiny\nTinyModel" in ax.get_title()
    highest = max(text.get_position()[1] for text in ax.texts)
    assert highest < TOPS[word]


def test_an_rms_norm_is_named() -> None:
    (ax,) = compose(make(PLACES, [LLAMA])).axes
    assert [text.get_text() for text in ax.texts].count("RMS") == 2
    table = make_placement_table([BERT, LLAMA])
    assert table["norm"].tolist() == ["LayerNorm", "RMSNorm"]
    assert table["placement"].tolist() == ["post", "pre"]


def test_a_survey_without_norm_information_is_rejected() -> None:
    with pytest.raises(InputError, match=r"did not record it; repeat it with `theodolite survey old --corpus"):
        make(PLACES, [make_survey("old").survey])


@pytest.mark.parametrize(("found", "ending"), take_turns([TABLE, SPREAD, PLACES], ["png", "svg", "pdf"]))
def test_every_format(found: Exhibit, ending: str, tmp_path: Path) -> None:
    save(found, make(found, [BERT, LLAMA]), tmp_path / f"made.{ending}")
    assert (tmp_path / f"made.{ending}").stat().st_size > 500


@pytest.mark.parametrize("found", [TABLE, SPREAD, PLACES], ids=lambda found: found.id)
def test_empty_surveys(found: Exhibit, tmp_path: Path) -> None:
    base = add_norms(make_survey("none", layers=1), {0: "LayerNorm"})
    empty = remove_units(base)
    tables = empty.tables | {"layer_norms": base.survey.tables["layer_norms"]}
    nothing = SurveyData(empty.facts, tables)
    if found is SPREAD:  # a figure of nothing else; the table has rows all the same
        with pytest.raises(InputError, match=r"nothing to draw.*no bin of half a decade of n has three units"):
            make(found, [nothing])
    else:
        save(found, make(found, [nothing]), tmp_path / "empty.png")
        assert (tmp_path / "empty.png").stat().st_size > 500


def test_numbers_of_the_table_are_finite_for_normed_states() -> None:
    data = make(TABLE, [BERT]).data
    assert np.isfinite(
        data.drop(columns=["survey", "layer_name", "population", "norm", "reason"]).to_numpy(float)
    ).all()
