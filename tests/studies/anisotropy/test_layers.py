"""The kind of a survey, the depth of its layers, and the rows of each layer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.synthetic_surveys import make_layer_names, make_layer_survey

from theodolite.studies.anisotropy.layers import (
    KIND_DESCRIPTIONS,
    KINDS,
    encoder_or_decoder,
    layer_depths,
    survey_kind,
    tabulate_layers,
)
from theodolite.studies.anisotropy.published import FIGURES, published_figures

DATA = Path(__file__).parents[4] / "shared" / "data" / "ethayarajh2019"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({}, "token-level text"),
        ({"modality": "text", "level": "token"}, "token-level text"),
        ({"modality": None, "level": None}, "token-level text"),
        ({"modality": "text", "level": "character"}, "character-level text"),
        ({"modality": "module", "level": "character"}, "character-level text"),
        ({"modality": "module"}, "module"),
        ({"modality": "speech"}, "speech"),
        ({"modality": "vision", "level": "token"}, "vision"),
        ({"modality": "convolution"}, "convolution"),
    ],
)
def test_kind_of_a_survey(model: dict[str, object], expected: str) -> None:
    assert survey_kind(make_layer_survey(model=model)) == expected
    assert expected in KINDS
    assert expected in KIND_DESCRIPTIONS


def test_a_survey_without_a_model_has_kind_vectors() -> None:
    assert survey_kind(make_layer_survey("v.npy", measured=True)) == "vectors"
    assert encoder_or_decoder(make_layer_survey("v.npy", measured=True), "") == "encoder"
    assert [encoder_or_decoder(make_layer_survey(model={"causal": causal}), "") for causal in (True, False)] == [
        "decoder",
        "encoder",
    ]
    assert encoder_or_decoder(make_layer_survey(), "decoder") == "decoder"


def test_depth_is_one_at_the_last_block() -> None:
    found = layer_depths(make_layer_survey(names=make_layer_names(4, final_norm=True)))
    assert [place.depth for place in found.values()] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert [place.joined_depth for place in found.values()] == [place.depth for place in found.values()]


def test_encoder_and_decoder_have_own_and_joined_depths() -> None:
    names = make_layer_names(2, stack="encoder", final_norm=True) + make_layer_names(
        4, stack="decoder", final_norm=True
    )
    found = list(layer_depths(make_layer_survey(names=names, model={"blocks": 6})).values())
    assert [place.stack for place in found] == ["encoder"] * 4 + ["decoder"] * 6
    assert [place.depth for place in found] == [0, 0.5, 1, 1.5, 0, 0.25, 0.5, 0.75, 1, 1.25]
    assert [place.joined_depth for place in found] == pytest.approx(np.arange(10) / 8)


def test_layer_names_take_precedence_over_the_number_of_blocks() -> None:
    """Some sources count a final norm among the blocks, and modules have no blocks at all."""
    found = layer_depths(make_layer_survey(names=make_layer_names(4, final_norm=True), model={"blocks": 5}))
    assert [place.depth for place in found.values()] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    found = layer_depths(make_layer_survey(names=["a.b", "a.c", "head"], model={"blocks": 3}))
    assert [place.depth for place in found.values()] == [0, 0.5, 1]


def test_layers_missing_from_the_survey_count_for_depth() -> None:
    survey = make_layer_survey(names=make_layer_names(12))
    survey.facts["layers"] = [layer for layer in survey.facts["layers"] if layer["index"] in (3, 6)]
    assert [place.depth for place in layer_depths(survey).values()] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["embeddings"], [0]),
        (["vectors"], [0]),
        (["stage 1", "stage 2", "stage 3", "stage 4"], [0.25, 0.5, 0.75, 1]),
        (["stem", "stage 1", "stage 2"], [0, 0.5, 1]),
        (["a.b", "a.c", "head"], [0, 0.5, 1]),
        ([], []),
    ],
)
def test_any_names_have_a_depth(names: list[str], expected: list[float]) -> None:
    survey = make_layer_survey(names=names or ["x"], model={"blocks": None})
    survey.facts["layers"] = survey.facts["layers"][: len(names)]
    assert [place.depth for place in layer_depths(survey).values()] == pytest.approx(expected)


def test_one_row_per_layer_in_order_with_known_errors() -> None:
    survey = make_layer_survey(anisotropy_svd=[0.1, 0.2, None, 0.4, 0.5, 0.6, 0.7])
    shuffled = survey.layers.sample(frac=1, random_state=0)
    survey.tables["layers"] = shuffled
    table = tabulate_layers(
        survey, "without-first", ["mean_cosine", "mean_norm", "anisotropy_svd", "nothing"], "name"
    )
    rows = shuffled[shuffled["population"] == "without-first"].sort_values("layer")
    assert table["layer"].tolist() == list(range(7))
    assert table["survey"].eq("name").all()
    assert table["mean_cosine_high"].to_numpy() == pytest.approx(rows["mean_cosine"].to_numpy() + 1.96 * 0.01)
    root = np.sqrt(rows["m"].to_numpy())
    assert table["mean_norm"].to_numpy() == pytest.approx(root)
    assert table["mean_norm_low"].to_numpy() == pytest.approx(root - 1.96 * 0.5 / (2 * root))
    assert table["anisotropy_svd"].isna().tolist() == [False, False, True, False, False, False, False]
    assert table["anisotropy_svd_low"].isna().all()
    assert table["nothing"].isna().all()


def test_a_mean_of_zero_has_a_norm_and_no_error() -> None:
    table = tabulate_layers(make_layer_survey(m=[0.0] * 7), "all", ["mean_norm"])
    assert table["mean_norm"].eq(0).all()
    assert table["mean_norm_low"].isna().all()


def test_published_figures_are_thirteen_layers_of_two_models() -> None:
    table = published_figures()
    assert table.groupby("survey").size().to_dict() == {"BERT": 13, "GPT-2": 13}
    assert table["depth"].max() == 1
    numbers = table[["intra_similarity", "cosine_baseline", "mev_baseline"]]
    assert numbers.ge(0).all().all()
    assert numbers.le(1).all().all()
    difference = table["intra_similarity"] - table["cosine_baseline"]
    assert table["intra_similarity_adjusted"].to_numpy() == pytest.approx(difference.to_numpy())


@pytest.mark.skipif(not DATA.is_dir(), reason="the published statistics are not at hand")
def test_published_figures_are_as_published() -> None:
    keys = (
        "mean cosine similarity between sentence and words",
        "mean cosine similarity across words",
        "variance explained for random words",
    )
    for model, file in (("BERT", "bert"), ("GPT-2", "gpt2")):
        statistics = json.loads((DATA / f"{file}_embedding_space_stats.json").read_text())
        expected = pd.DataFrame([[statistics[key][f"layer_{layer}"] for key in keys] for layer in range(13)])
        assert np.array(FIGURES[model]) == pytest.approx(expected.to_numpy())
