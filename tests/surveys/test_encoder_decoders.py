"""Surveys of encoder-decoders from a saved folder, as a user makes them: complete, resumed, and opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import oracles
from tests.encoder_decoders import saved
from tests.shared import slow
from tests.small_models import sentences
from transformers import AutoModel, AutoTokenizer

import theodolite
from theodolite.errors import InputError


@pytest.mark.parametrize("name", ["T5", slow("Marian"), slow("MBart"), slow("ByT5")])
def test_both_stacks_are_surveyed(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(
        "\n".join([*sentences(12 if name == "ByT5" else 40, seed=3, longest=10), "x", "naïve 東京"]),
        encoding="utf-8",
    )
    model = saved(name, tmp_path / "model")
    made = theodolite.survey(model, corpus, out=tmp_path / "s", max_tokens=48, sample_size=64)
    rows = made.layers[made.layers["population"] == "all"]
    assert {name.split()[0] for name in rows["layer_name"]} == {"encoder", "decoder"}
    assert rows["n"].nunique() == 1  # as many positions are fed to the decoder as are read
    assert np.isfinite(rows["q"]).all()
    # Embeddings of the decoder are those of its tokens (and positions): T5's vary within a unit not at all.
    if name in ("T5", "ByT5"):
        embeddings = rows[rows["layer_name"].str.endswith("embeddings")]
        assert (embeddings["v_within"] <= 1e-9 * embeddings["v"]).all()
    again = theodolite.survey(model, corpus, out=tmp_path / "s", max_tokens=48, sample_size=64, resume=True)
    opened = theodolite.open(tmp_path / "s")
    assert again.layers.equals(opened.layers)
    start = {"T5": "<pad>", "Marian": "<pad>", "MBart": "</s>", "ByT5": "<pad>"}[name]
    units = opened.units.set_index("unit")
    assert bool(units.loc[start, "special"])


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Sources and labels of other lengths: one label longer than its source, one empty."""
    path = tmp_path / "pairs.jsonl"
    sources, labels = sentences(12, seed=5, longest=8), [*sentences(10, seed=6, longest=20), "", "x"]
    lines = [json.dumps({"text": a, "summary": b}) for a, b in zip(sources, labels, strict=True)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("units", [slow("id"), "word"])
def test_a_decoder_receives_the_given_labels(pairs: Path, tmp_path: Path, units: str) -> None:
    folder = saved("T5", tmp_path / "model")
    found = theodolite.survey(folder, pairs, target="summary", units=units, max_tokens=48, sample_size=64)
    rows = found.layers[found.layers["population"] == "all"].set_index("layer_name")
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    states: dict[str, list[torch.Tensor]] = {"encoder": [], "decoder": []}
    for line in pairs.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        read = tokenizer(record["text"], return_tensors="pt")["input_ids"]
        label = tokenizer(record["summary"], truncation=True, max_length=48)["input_ids"]
        fed = torch.tensor([[model.config.decoder_start_token_id, *label[:-1]]])
        with torch.no_grad():
            gave = model(input_ids=read, decoder_input_ids=fed, output_hidden_states=True)
        states["encoder"].append(gave.encoder_hidden_states[1][0])
        states["decoder"].append(gave.decoder_hidden_states[2][0])
    if units == "id":
        for name, layer in (("encoder", "encoder block 1"), ("decoder", "decoder block 2")):
            x = torch.cat(states[name]).double().numpy()
            assert rows.loc[layer, "n"] == len(x)
            assert rows.loc[layer, "q"] == pytest.approx(oracles.qmv(x).q, rel=1e-5)
    assert rows.loc["encoder block 1", "n"] != rows.loc["decoder block 1", "n"]


def test_labels_are_part_of_the_identity_of_a_survey(pairs: Path, tmp_path: Path) -> None:
    folder = saved("T5", tmp_path / "model")
    theodolite.survey(folder, pairs, target="summary", out=tmp_path / "s", layers="4")
    with pytest.raises(InputError, match="other settings"):
        theodolite.survey(folder, pairs, out=tmp_path / "s", layers="4", resume=True)


def test_invalid_labels_are_rejected(pairs: Path, tmp_path: Path, small_model: Any) -> None:
    folder = saved("T5", tmp_path / "model")
    with pytest.raises(InputError, match=r"no field 'sumary'.*--target.*summary"):
        theodolite.survey(folder, pairs, target="sumary")
    with pytest.raises(InputError, match=r"--target 'b' requires a .jsonl or .parquet corpus"):
        theodolite.survey(folder, ["a text"], target="b")
    with pytest.raises(InputError, match="requires an encoder-decoder model"):
        theodolite.survey(small_model("bert"), pairs, target="summary")
