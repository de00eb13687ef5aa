"""What a survey is of, where its layers stand, and what is said of each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.made_up_layers import layered, names_of

from theodolite.studies.anisotropy.by_layer import by_layer
from theodolite.studies.anisotropy.depth import places
from theodolite.studies.anisotropy.kinds import KINDS, TOLD, kind, side
from theodolite.studies.anisotropy.published import FIGURES, published

DATA = Path(__file__).parents[4] / "shared" / "data" / "ethayarajh2019"


@pytest.mark.parametrize(
    ("model", "wanted"),
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
def test_kinds_are_told_apart(model: dict[str, object], wanted: str) -> None:
    assert kind(layered(model=model)) == wanted
    assert wanted in KINDS
    assert wanted in TOLD


def test_what_was_measured_without_a_model_is_vectors() -> None:
    assert kind(layered("v.npy", measured=True)) == "vectors"
    assert side(layered("v.npy", measured=True), "") == "encoder"
    assert [side(layered(model={"causal": causal}), "") for causal in (True, False)] == ["decoder", "encoder"]
    assert side(layered(), "decoder") == "decoder"


def test_depth_is_one_at_the_last_block() -> None:
    found = places(layered(names=names_of(4, final_norm=True)))
    assert [place.depth for place in found.values()] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert [place.joined_depth for place in found.values()] == [place.depth for place in found.values()]


def test_an_encoder_and_its_decoder_have_depths_of_their_own_and_one_together() -> None:
    names = names_of(2, stack="encoder", final_norm=True) + names_of(4, stack="decoder", final_norm=True)
    found = list(places(layered(names=names, model={"blocks": 6})).values())
    assert [place.stack for place in found] == ["encoder"] * 4 + ["decoder"] * 6
    assert [place.depth for place in found] == [0, 0.5, 1, 1.5, 0, 0.25, 0.5, 0.75, 1, 1.25]
    assert [place.joined_depth for place in found] == pytest.approx(np.arange(10) / 8)


def test_names_are_believed_before_the_count_of_blocks() -> None:
    """Some sources count a final norm among the blocks, and modules have no blocks at all."""
    found = places(layered(names=names_of(4, final_norm=True), model={"blocks": 5}))
    assert [place.depth for place in found.values()] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    found = places(layered(names=["a.b", "a.c", "head"], model={"blocks": 3}))
    assert [place.depth for place in found.values()] == [0, 0.5, 1]


def test_layers_left_out_of_the_survey_count_all_the_same() -> None:
    survey = layered(names=names_of(12))
    survey.facts["layers"] = [layer for layer in survey.facts["layers"] if layer["index"] in (3, 6)]
    assert [place.depth for place in places(survey).values()] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["embeddings"], [0]),
        (["vectors"], [0]),
        (["stage 1", "stage 2", "stage 3", "stage 4"], [0.25, 0.5, 0.75, 1]),
        (["stem", "stage 1", "stage 2"], [0, 0.5, 1]),
        (["a.b", "a.c", "head"], [0, 0.5, 1]),
        ([], []),
    ],
)
def test_any_names_have_a_depth(names: list[str], wanted: list[float]) -> None:
    survey = layered(names=names or ["x"], model={"blocks": None})
    survey.facts["layers"] = survey.facts["layers"][: len(names)]
    assert [place.depth for place in places(survey).values()] == pytest.approx(wanted)


def test_a_row_a_layer_in_order_with_errors_where_they_are_known() -> None:
    survey = layered(anisotropy_svd=[0.1, 0.2, None, 0.4, 0.5, 0.6, 0.7])
    shuffled = survey.layers.sample(frac=1, random_state=0)
    survey.tables["layers"] = shuffled
    table = by_layer(survey, "without-first", ["mean_cosine", "mean_norm", "anisotropy_svd", "nothing"], "name")
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
    table = by_layer(layered(m=[0.0] * 7), "all", ["mean_norm"])
    assert table["mean_norm"].eq(0).all()
    assert table["mean_norm_low"].isna().all()


def test_published_figures_are_thirteen_layers_of_two_models() -> None:
    table = published()
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
        told = json.loads((DATA / f"{file}_embedding_space_stats.json").read_text())
        wanted = pd.DataFrame([[told[key][f"layer_{layer}"] for key in keys] for layer in range(13)])
        assert np.array(FIGURES[model]) == pytest.approx(wanted.to_numpy())
