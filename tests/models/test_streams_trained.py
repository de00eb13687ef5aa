"""Attention of trained models, from the catalogue: compared with the weights that transformers returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.catalogue.lookup import is_cached
from theodolite.models.attention_sums import Span, sum_attention
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.models.text_anatomy import Anatomy

TEXT = "The surveyor measured the angle between two distant towers, and wrote it down in a small book."


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm-l6", "smollm2-135m"])
@torch.no_grad()
def test_entropy_and_masses_equal_those_of_eager_attention(name: str) -> None:
    if not is_cached(MODELS[name]):
        pytest.skip(f"{name} has not been downloaded")
    checkpoint = resolve(name)
    model = load_model(checkpoint, dtype="float32", device="cpu")
    inputs = load_tokenizer(checkpoint)(TEXT, return_tensors="pt")
    streams = Anatomy.of(model).find_streams()
    calls: list[Any] = []
    with streams.capture([], lambda *states: None, {block.residual: calls.append for block in streams.blocks}):
        model(**inputs)
    model.set_attn_implementation("eager")
    weights = model(**inputs, output_attentions=True).attentions
    length = inputs["input_ids"].shape[1]
    for call, weight in zip(calls, weights, strict=True):
        found = sum_attention(call, [Span(0, 0, length)], torch.ones(1, length, dtype=torch.bool))
        w = weight[0].double().numpy()
        entropy = -np.where(w > 0, w * np.log(np.where(w > 0, w, 1)), 0).sum(-1)
        # Float32 with other kernels, after up to 30 blocks: some 1e-5 of a logit of 30.
        np.testing.assert_allclose(found["entropy"].sum(0), entropy.sum(-1), rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(found["first_mass"].sum(0), w[:, :, 0].sum(-1), rtol=2e-3, atol=1e-3)
        np.testing.assert_allclose(found["top_mass"][1], w.mean(axis=1).max(-1), rtol=2e-3, atol=1e-3)
