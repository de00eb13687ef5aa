"""Surveys of several streams: nothing else changes, and they resume and merge as all surveys do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.media_models import Document, picture, picture_model, processor
from tests.small_models import load, make, sentences

import theodolite
from theodolite.errors import InputError, MemoryLimitError
from theodolite.models.layers import RESIDUAL
from theodolite.sources.text.source import TextSource
from theodolite.surveys import text_survey

TEXTS = sentences(30, seed=2)
GIVEN: dict[str, Any] = {"device": "cpu", "sample_size": 32, "text": False}
STREAMS = ("residual", "q", "k", "v", "k-rotated", "attn", "mlp", "v/heads")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def plain(model: Path) -> theodolite.Survey:
    return theodolite.survey(str(model), TEXTS, **GIVEN)


@pytest.fixture(scope="module")
def made(model: Path, tmp_path_factory: pytest.TempPathFactory) -> theodolite.Survey:
    out = tmp_path_factory.mktemp("streams") / "out"
    return theodolite.survey(str(model), TEXTS, streams=STREAMS, attention=True, out=out, **GIVEN)


def test_the_residual_stream_has_the_same_numbers(plain: theodolite.Survey, made: theodolite.Survey) -> None:
    rows = made.layers[made.layers["layer"].isin(plain.layers["layer"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, plain.layers)
    known = made.tokens["layer"].isin(plain.layers["layer"])
    pd.testing.assert_frame_equal(made.tokens[known].reset_index(drop=True), plain.tokens)


def test_a_survey_without_streams_records_nothing_about_them(plain: theodolite.Survey, tmp_path: Path) -> None:
    assert all(
        set(layer) == {"index", "name", "dim", "library_index", "stack", "units"}
        for layer in plain.facts["layers"]
    )
    assert "attention" not in plain.facts["settings"]
    assert not len(plain.tables.attention)
    plain.save(tmp_path / "out")
    assert not (tmp_path / "out/attention.parquet").exists()
    assert "attention.parquet" not in theodolite.load(tmp_path / "out").facts["files"]


def test_numbers_equal_those_of_plain_vectors(model: Path, made: theodolite.Survey) -> None:
    """Read every token of the corpus with plain hooks, and measure its values in float64."""
    network, tokenizer = load(model)
    vectors: list[torch.Tensor] = []
    hook = network.layers[1].self_attn.v_proj.register_forward_hook(
        lambda module, args, output: vectors.append(output[0].double())
    )
    with torch.no_grad():
        for text in TEXTS:
            network(**tokenizer(text, return_tensors="pt"))
    hook.remove()
    x = torch.cat(vectors).numpy()
    row = made.layers[(made.layers["layer_name"] == "block 2/v") & (made.layers["population"] == "all")].iloc[0]
    assert row["n"] == len(x)
    assert row["q"] == pytest.approx((x**2).sum(1).mean(), rel=1e-5)
    assert row["v"] == pytest.approx(x.var(axis=0).sum(), rel=1e-5)
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = (np.square(units.sum(0)).sum() - len(x)) / (len(x) * (len(x) - 1))
    assert row["mean_cosine"] == pytest.approx(cosine, rel=1e-4)


def test_q_of_the_heads_is_q_of_their_stream(made: theodolite.Survey) -> None:
    rows = made.layers[made.layers["population"] == "all"].set_index("layer_name")["q"]
    assert rows.filter(like="block 2/v/head").sum() == pytest.approx(rows["block 2/v"], rel=1e-6)
    assert rows["block 2/k"] == pytest.approx(rows["block 2/k-rotated"], rel=1e-5)  # a rotation changes no norm


def test_attention_is_a_table_of_blocks_and_heads(model: Path, made: theodolite.Survey) -> None:
    table = made.tables.attention
    blocks, heads = 2, load(model)[0].config.num_attention_heads
    assert len(table) == blocks * heads * 2
    assert set(table["population"]) == {"all", "without-first"}
    rows = table[table["population"] == "all"]
    assert (rows["n"] == made.state.positions).all()
    assert rows["first_mass"].between(0, 1).all()
    assert rows["entropy_share"].between(0, 1 + 1e-6).all()
    ordered = rows.filter(like="logit_").to_numpy()
    assert (np.diff(ordered, axis=1) >= 0).all()
    opened = theodolite.load(str(made.folder))
    pd.testing.assert_frame_equal(opened.tables.attention, table)
    assert opened.layer_objects() == made.layer_objects()


def test_merged_parts_equal_the_whole(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    given = GIVEN | {"streams": ("residual", "k"), "attention": True, "layers": "2"}
    whole = theodolite.survey(str(model), TEXTS, **given)
    parts = [theodolite.survey(str(model), TEXTS, part=f"{number}/2", **given) for number in range(2)]
    merged = theodolite.merge(parts)
    for column in ("n", "q", "mean_cosine", "anisotropy_svd"):
        expected = whole.layers[column].to_numpy(float)
        assert merged.layers[column].to_numpy(float) == pytest.approx(expected, rel=1e-5, nan_ok=True)
    exact = ["layer", "head", "n", "windows", "pairs"]
    pd.testing.assert_frame_equal(merged.tables.attention[exact], whole.tables.attention[exact])
    rest = whole.tables.attention.select_dtypes("float").columns
    np.testing.assert_allclose(merged.tables.attention[rest], whole.tables.attention[rest], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_interrupted_run_resumes_bit_for_bit(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from theodolite.engines.progress import Listener
    from theodolite.errors import TheodoliteError

    class Stopping(Listener):
        def stop(self) -> bool:
            return True

    monkeypatch.setattr(text_survey, "SHARD_CHARS", 500)
    given = GIVEN | {"streams": ("residual", "q"), "attention": True, "layers": "1-2"}
    whole = theodolite.survey(str(model), TEXTS, **given)
    with pytest.raises(TheodoliteError, match="Interrupted"):
        theodolite.survey(str(model), TEXTS, out=tmp_path / "out", listener=Stopping(), **given)
    resumed = theodolite.survey(str(model), TEXTS, out=tmp_path / "out", resume=True, **given)
    pd.testing.assert_frame_equal(resumed.layers, whole.layers)
    pd.testing.assert_frame_equal(resumed.tables.attention, whole.tables.attention)
    with pytest.raises(InputError, match="--attention: True there, False now"):
        theodolite.survey(str(model), TEXTS, out=tmp_path / "out", resume=True, **(given | {"attention": False}))


def test_only_the_residual_stream_marks_sinks(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold at the median half of all vectors are massive: keys must not move states to other cells."""
    monkeypatch.setattr("theodolite.state.pilot.MASSIVE", 1.0)
    alone = theodolite.survey(str(model), TEXTS, **GIVEN)
    both = theodolite.survey(str(model), TEXTS, streams=("residual", "k"), **GIVEN)
    keys = theodolite.survey(str(model), TEXTS, streams=("k",), **GIVEN)
    rows = both.layers[both.layers["layer"].isin(alone.layers["layer"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, alone.layers)
    n = both.layers[both.layers["population"] == "without-sinks"].set_index("layer_name")["n"]
    own = keys.layers[keys.layers["population"] == "without-sinks"].set_index("layer_name")["n"]
    assert n["block 2/k"] < own["block 2/k"]
    assert n["block 2/k"] <= n["block 2"]


def test_memory_counts_the_layers_of_streams(
    model: Path, plain: theodolite.Survey, made: theodolite.Survey
) -> None:
    assert made.facts["memory"]["bytes"] > 2 * plain.facts["memory"]["bytes"]
    with pytest.raises(MemoryLimitError, match="for 20 layers"):
        theodolite.survey(str(model), TEXTS, streams=STREAMS, memory=plain.facts["memory"]["bytes"] * 2, **GIVEN)


def test_no_block_runs_after_the_last_stream(model: Path) -> None:
    network, tokenizer = load(model)
    source = TextSource(network, tokenizer, streams=("k",), layers="1")
    reached: list[int] = []
    hook = network.layers[1].register_forward_hook(lambda *call: reached.append(1))
    seen: list[int] = []
    for batch in source.prepare(list(enumerate(TEXTS[:3]))):
        source.run(batch, lambda batch: seen.append(batch.layer))
    hook.remove()
    assert seen == [source.layers[0].index]
    assert not reached
    assert source.layers[0].stream != RESIDUAL


def test_pictures(tmp_path: Path) -> None:
    picture_model("ViT").save_pretrained(tmp_path / "vit")
    processor().save_pretrained(tmp_path / "vit")
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        picture(Document(f"{number}")).save(tmp_path / f"pictures/{number}.png")
    given = {"device": "cpu", "sample_size": 16, "streams": ("residual", "k"), "attention": True}
    found = theodolite.survey(str(tmp_path / "vit"), str(tmp_path / "pictures"), **given)
    assert "block 1/k" in set(found.layers["layer_name"])
    rows = found.tables.attention[found.tables.attention["population"] == "all"]
    assert (rows["n"] == found.state.positions).all()
    assert (rows["windows"] == 4).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"streams": ("keys",)}, "--streams 'keys' is not one of residual, q, k, v, q-rotated"),
        ({"attention": True, "units": "word"}, "--attention requires positions that are tokens"),
        ({"layers": "block 1/z"}, "--layers 'block 1/z' is not a layer of this model"),
    ],
)
def test_errors(model: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        theodolite.survey(str(model), TEXTS, **(GIVEN | options))
