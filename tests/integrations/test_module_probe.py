"""Probes of any module, of pooled sentence vectors, and of compiled and adapted models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.integrations.tiny_training import tiny
from tests.small_models import sentences
from torch import nn

from theodolite.errors import InputError
from theodolite.integrations import GeometryProbe, ModuleProbe, SentenceProbe
from theodolite.studies.series import Series


class _Net(nn.Module):
    """Neither text nor transformers, with dropout that a measurement must not use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.drop(torch.relu(self.first(x))))


def test_any_module_is_measured_as_watch_measures_it(tmp_path: Path) -> None:
    import theodolite

    torch.manual_seed(0)
    model, inputs = _Net(), [torch.randn(20, 6) for _ in range(3)]
    probe = ModuleProbe(inputs, ["first", "second"], share=None, out=tmp_path / "s", populations=("all",))
    numbers = probe.measure(model.train(), 0)
    assert model.training
    survey = theodolite.watch(model, inputs, ["first", "second"], populations=("all",)).layers
    assert probe.layers is not None
    assert probe.layers["layer_name"].tolist() == ["first", "second"]
    for column in "n q v mean_cosine effective_rank".split():
        # Another centre moves sums of float32 states in the sixth digit.
        np.testing.assert_allclose(probe.layers[column], survey[column], rtol=1e-5, err_msg=column)
    with torch.no_grad():
        states = model.eval().first(torch.cat(inputs)).double()
    values = torch.linalg.eigvalsh(torch.cov(states.T))
    share = values[values > 1e-12] / values.sum()
    rank = float(torch.exp(-(share * share.log()).sum()))
    assert numbers["geometry/first/effective_rank"] == pytest.approx(rank, rel=1e-5)
    assert Series.read(tmp_path / "s").settings["modules"] == ["first", "second"]


def test_a_vision_model_is_measured_by_its_modules() -> None:
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = ViTModel(ViTConfig(image_size=16, patch_size=8, **shape))
    probe = ModuleProbe([{"pixel_values": torch.randn(4, 3, 16, 16)}] * 2, "layernorm", share=None)
    numbers = probe.measure(model, 0)
    assert probe.layers is not None
    assert probe.layers.set_index("population")["n"]["all"] == 2 * 4 * (4 + 1)
    assert numbers["geometry/layernorm/effective_rank"] > 1


def test_wrong_use_of_a_module_probe_is_rejected() -> None:
    with pytest.raises(InputError, match="layers is for text models"):
        ModuleProbe([torch.zeros(1, 6)], "first", layers="all")
    with pytest.raises(InputError, match="inputs: expected at least one"):
        ModuleProbe([], "first")
    with pytest.raises(InputError, match="_Net has no submodule 'frist'"):
        ModuleProbe([torch.randn(3, 6)], "frist").measure(_Net(), 0)
    with pytest.raises(InputError, match=r"expected a torch\.nn\.Module, got a value of type str"):
        ModuleProbe([torch.randn(3, 6)], "first").measure("net", 0)
    with pytest.raises(InputError, match="expected a SentenceTransformer, got a value of type _Net"):
        SentenceProbe(["a", "b"]).measure(_Net(), 0)
    with pytest.raises(InputError, match="texts requires a list of sentences"):
        SentenceProbe("a sentence")


class _Sentences(nn.Module):
    """What a SentenceTransformer offers: `tokenize`, and a call that returns a dict with the pooled vectors."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.inner, self.reader = model, tokenizer

    def tokenize(self, texts: list[str]) -> dict[str, torch.Tensor]:
        return dict(self.reader(texts, padding=True, truncation=True, max_length=48, return_tensors="pt"))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        names = ("input_ids", "attention_mask")
        states = self.inner(**{name: features[name] for name in names}).last_hidden_state
        mask = features["attention_mask"][:, :, None]
        return features | {"sentence_embedding": (states * mask).sum(1) / mask.sum(1)}


def test_pooled_sentence_vectors_are_one_per_sentence() -> None:
    model, tokenizer = tiny("encoder")
    texts = sentences(40, seed=9)
    wrapped = _Sentences(model.bert, tokenizer)
    probe = SentenceProbe(texts, share=None, populations=("all",))
    probe.measure(wrapped, 0)
    assert probe.layers is not None
    row = probe.layers.iloc[0]
    assert (row["layer_name"], row["n"]) == ("sentence", 40)
    with torch.no_grad():
        parts = [wrapped.eval()(wrapped.tokenize(texts[at : at + 32]))["sentence_embedding"] for at in (0, 32)]
    unit = nn.functional.normalize(torch.cat(parts).double(), dim=1)
    mean = float((unit.sum(0).square().sum() - 40) / (40 * 39))
    assert row["mean_cosine"] == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_is_run_without_its_compiled_code(whole: bool) -> None:
    """`model.compile()` keeps the code in the model: hooks that were added later would not be called."""
    model, tokenizer = tiny("decoder")
    plain = GeometryProbe(sentences(8), tokenizer, share=None)
    expected = plain.measure(model, 0)

    def backend(graph: Any, inputs: Any) -> Any:
        raise AssertionError("compiled during a measurement")

    if whole:
        model.compile(backend=backend)
    else:
        for block in model.model.layers:
            block.compile(backend=backend)
    found = GeometryProbe(sentences(8), tokenizer, share=None).measure(model, 0)
    seconds = "geometry/seconds"
    assert {k: v for k, v in found.items() if k != seconds} == {k: v for k, v in expected.items() if k != seconds}


def test_an_adapter_is_measured_with_its_base() -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = tiny("decoder")
    before = GeometryProbe(sentences(8), tokenizer, share=None).measure(model, 0)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["down_proj"]))
    probe = GeometryProbe(sentences(8), tokenizer, share=None, weights="whole")
    same = probe.measure(adapted, 0)
    key = "geometry/block_2/effective_rank"
    assert same[key] == pytest.approx(before[key], rel=1e-6), "a new adapter changes nothing"
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.5)
    assert probe.measure(adapted, 1)[key] != pytest.approx(before[key], rel=1e-3)
