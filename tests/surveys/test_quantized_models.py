"""Models quantized by bitsandbytes and torchao: surveyed as they are, and unchanged afterwards.

Requires both libraries, as installed by `make test-quantized`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import load, save, sentences

import theodolite
from theodolite.errors import TheodoliteError
from theodolite.models.loaded_model import wrap_model

TEXTS = sentences(20)
ROUNDING = {"bitsandbytes, 4 bits": 1e-3, "bitsandbytes, 8 bits": 1e-2, "torchao, 8 bits": 1e-5}
"""Relative, on Q: products in bfloat16; activations that are quantized together with others; float32."""


def four_bits() -> Any:
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")


def eight_bits() -> Any:
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_8bit=True)


def integers() -> Any:
    pytest.importorskip("torchao")
    from torchao.quantization import Int8WeightOnlyConfig
    from transformers import TorchAoConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


CONFIGS = {"bitsandbytes, 4 bits": four_bits, "bitsandbytes, 8 bits": eight_bits, "torchao, 8 bits": integers}


@pytest.fixture(scope="module")
def folder(small_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama whose widths are multiples of 32, as bitsandbytes requires on a CPU."""
    from transformers import LlamaConfig, LlamaModel

    _, tokenizer = load(small_model("llama"))
    torch.manual_seed(0)
    settings = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
    )
    made = tmp_path_factory.mktemp("wide")
    save(LlamaModel(settings), tokenizer, made)
    return made


@pytest.mark.parametrize("method", CONFIGS)
def test_a_quantized_model_is_surveyed_as_it_is(folder: Path, method: str) -> None:
    from transformers import AutoModel

    def load_quantized() -> Any:
        return AutoModel.from_pretrained(folder, quantization_config=CONFIGS[method]()).eval()

    def read(ids: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            return list(model(input_ids=ids, output_hidden_states=True).hidden_states)

    model, (_, tokenizer) = load_quantized(), load(folder)
    identity = wrap_model(load_quantized(), tokenizer).identity()
    ids = [torch.tensor([tokenizer(text)["input_ids"]]) for text in TEXTS]
    expected = [read(each) for each in ids]
    model = load_quantized()  # its first forward passes are those of the survey
    made = theodolite.survey(model, TEXTS, tokenizer=tokenizer, sample_size=64)
    assert all(
        torch.equal(a, b)
        for text, states in zip(ids, expected, strict=True)
        for a, b in zip(read(text), states, strict=True)
    )
    found = made.facts["model"]
    assert found["quantization"] == method.split(",")[0]
    assert {name: made.facts["identity"]["model"][name] for name in identity} == identity
    rows = made.layers[made.layers["population"] == "all"].set_index("library_index")["q"]
    for index in range(len(expected[0])):
        q = torch.cat([states[index][0].double().square().sum(1) for states in expected]).mean()
        assert rows[index] == pytest.approx(float(q), rel=ROUNDING[method]), index
    plain = theodolite.survey(str(folder), TEXTS, sample_size=64).layers
    assert not np.array_equal(plain["q"], made.layers["q"])  # it was quantized


@pytest.mark.parametrize("method", CONFIGS)
def test_hashing_changes_nothing(folder: Path, method: str) -> None:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, quantization_config=CONFIGS[method]()).eval()
    _, tokenizer = load(folder)
    ids = torch.arange(5, 17)[None]
    with torch.no_grad():
        before = model(ids).last_hidden_state  # bitsandbytes may pack its weights for the CPU now
        first = wrap_model(model, tokenizer).sha256
        assert torch.equal(model(ids).last_hidden_state, before)
        assert wrap_model(model, tokenizer).sha256 == first


def test_a_folder_that_transformers_does_not_load_without_a_head_is_explained(
    folder: Path, tmp_path: Path
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).save_pretrained(tmp_path / "whole")
    model = LlamaForCausalLM.from_pretrained(tmp_path / "whole", quantization_config=integers())
    save(model, load(folder)[1], tmp_path / "quantized")
    with pytest.raises(
        TheodoliteError, match=r"quantized\. If transformers loads it with its head, give theodolite"
    ):
        theodolite.survey(str(tmp_path / "quantized"), TEXTS)
    model = LlamaForCausalLM.from_pretrained(tmp_path / "quantized")
    made = theodolite.survey(model, TEXTS, layers="-1", sample_size=16)  # with the tokenizer of the folder
    assert made.facts["model"]["quantization"] == "torchao"


def test_watch_accepts_quantized_weights() -> None:
    pytest.importorskip("torchao")
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 6))
    inputs = [torch.randn(4, 8) for _ in range(5)]
    quantize_(module, Int8WeightOnlyConfig())
    made = theodolite.watch(module, inputs, ["0", "2"], sample_size=16)
    with torch.no_grad():
        expected = module(torch.cat(inputs)).double().square().sum(1).mean()
    assert made.layers["q"].iloc[-1] == pytest.approx(float(expected), rel=1e-5)
    first = made.facts["identity"]["model"]["sha256"]
    module[2].bias.data[0] += 1
    assert theodolite.watch(module, inputs, ["0"], sample_size=16).facts["identity"]["model"]["sha256"] != first
