"""Hybrid models: blocks of several classes, with attention and without, are the layers of one stack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.models.test_text_anatomy import FURTHER, built
from tests.small_models import TOKENIZERS, sentences
from torch import nn

from theodolite import survey
from theodolite.errors import InputError
from theodolite.models.text_anatomy import Anatomy

ROUNDING = 1e-9
"""Relative: the states are float64, and the library computes those of one text in products of other sizes."""


@pytest.mark.parametrize("name", ["Jamba", "OlmoHybrid"])
def test_a_survey_has_the_numbers_of_each_text_by_itself(name: str) -> None:
    tokenizer = TOKENIZERS["llama"]()
    settings, _ = FURTHER[name]
    one_expert = {"num_experts": 1}  # the products of several take no float64
    model = built(name, settings | {"vocab_size": len(tokenizer)} | one_expert).double()
    assert len({type(block) for block in model.layers}) == 2
    texts = sentences(12, longest=10)
    found = survey(model, texts, tokenizer=tokenizer, populations=["all"])
    states: list[list[torch.Tensor]] = [[] for _ in range(4)]
    for text in texts:
        with torch.no_grad():
            output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for kept, state in zip(states, output.hidden_states, strict=True):
            kept.append(state[0])
    rows = found.layers.set_index("layer_name")
    assert list(rows.index) == ["embeddings", "block 1", "block 2", "block 3", "final norm"]
    for layer, parts in zip(["embeddings", "block 1", "block 2", "final norm"], states, strict=True):
        x = torch.cat(parts).numpy()
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        n = len(x)
        assert rows["n"][layer] == n
        assert rows["q"][layer] == pytest.approx(np.square(x).sum(1).mean(), rel=ROUNDING)
        assert rows["m"][layer] == pytest.approx(np.square(x.mean(0)).sum(), rel=ROUNDING)
        mean_cosine = (np.square(unit.sum(0)).sum() - n) / (n * (n - 1))
        assert rows["mean_cosine"][layer] == pytest.approx(mean_cosine, abs=ROUNDING)


class Doubled(nn.Module):
    """A list of as many modules of two classes as there are blocks, with more parameters: not the blocks."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.config, self.model = model.config, model
        self.others = nn.ModuleList([nn.Linear(99, 99), nn.Bilinear(99, 99, 99), nn.Linear(99, 99)])

    def forward(self, **inputs: Any) -> Any:
        x = torch.zeros(1, inputs["input_ids"].shape[1], 99)
        self.others[2](self.others[1](self.others[0](x), x))
        return self.model(**inputs)


def test_a_list_of_other_modules_is_rejected() -> None:
    model: Any = Doubled(built("Llama", FURTHER["Qwen2"][0]))
    with pytest.raises(InputError, match="the output of block 1 is not in the hidden_states of transformers"):
        Anatomy.of(model)
