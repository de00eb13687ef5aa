"""Pooled sentence vectors against transformers' hidden_states of one sentence at a time, in plain loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import encoder_decoders
from tests.shared import slow
from tests.small_models import load, sentences

from theodolite.errors import InputError
from theodolite.studies.pooling import embed_sentences, pool_states

# A forward pass of a padded batch and one of a sentence alone differ by rounding in float32: 1e-6 of the norm.
BATCHED = 1e-5
TEXTS = ["the mountain.", *sentences(9, seed=4), "a", "the river and the mountain"]


def by_hand(model: Any, tokenizer: Any, text: str, layer: int, how: str, *, special: bool = True) -> np.ndarray:
    encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    marks = encoded.pop("special_tokens_mask")[0].tolist()
    encoded.pop("token_type_ids", None)
    with torch.no_grad():
        states = model(**encoded, output_hidden_states=True).hidden_states[layer][0].double().numpy()
    rows = [state for state, mark in zip(states, marks, strict=True) if special or not mark]
    if how == "first":
        return rows[0]
    if how == "last":
        return rows[-1]
    if how == "max":
        return np.array([max(row[i] for row in rows) for i in range(states.shape[1])])
    total = np.zeros(states.shape[1])
    for row in rows:
        total += row
    return total / len(rows)


@pytest.mark.parametrize("family", ["bert", slow("roberta"), "gpt2", slow("llama")])
@pytest.mark.parametrize("how", ["first", "mean", "last", "max"])
@pytest.mark.parametrize("special", [True, False])
def test_pooled_states_equal_a_loop(
    small_model: Callable[[str], Path], family: str, how: str, special: bool
) -> None:
    model, tokenizer = load(small_model(family))
    found = embed_sentences(model, tokenizer, TEXTS, [0, 1], how, special=special, batch_tokens=60)
    assert list(found) == [0, 1]
    for layer, vectors in found.items():
        expected = np.array([by_hand(model, tokenizer, text, layer, how, special=special) for text in TEXTS])
        assert vectors.numpy() == pytest.approx(expected, abs=BATCHED * np.abs(expected).max())


def test_padding_would_change_the_mean(small_model: Callable[[str], Path]) -> None:
    """The tempting mean over the padded batch misses by far more than the tolerance."""
    model, tokenizer = load(small_model("bert"))
    encoded = tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        wrong = model(**encoded, output_hidden_states=True).hidden_states[1].mean(1).numpy()
    expected = np.array([by_hand(model, tokenizer, text, 1, "mean") for text in TEXTS])
    assert np.abs(wrong - expected).max() > 1e3 * BATCHED * np.abs(expected).max()


def test_an_encoder_decoder_is_pooled_on_both_sides() -> None:
    model, tokenizer = encoder_decoders.build("T5"), encoder_decoders.tokenizer()
    found = embed_sentences(model, tokenizer, TEXTS[:3], None, "mean")
    encoded = tokenizer(TEXTS[1], return_tensors="pt")
    fed = torch.cat([torch.tensor([[1]]), encoded["input_ids"][:, :-1]], 1)  # moved on by one, the start in front
    with torch.no_grad():
        output = model(**encoded, decoder_input_ids=fed, output_hidden_states=True)
    assert found[1][1].numpy() == pytest.approx(
        output.encoder_hidden_states[1][0].mean(0).numpy(), rel=1e-4, abs=1e-4
    )
    assert found[5][1].numpy() == pytest.approx(
        output.decoder_hidden_states[1][0].mean(0).numpy(), rel=1e-4, abs=1e-4
    )


def test_a_model_that_downsamples_is_pooled() -> None:
    model, tokenizer = encoder_decoders.canine()
    tokenizer._unicode_vocab_size = 0xE010  # up to its special characters; more take seconds
    found = embed_sentences(model, tokenizer, ["a river here", "the mountain"], None, "mean")
    assert all(vectors.shape == (2, 32) and bool(vectors.isfinite().all()) for vectors in found.values())


def test_the_mean_is_summed_in_float64_beside_a_rogue_coordinate() -> None:
    states = torch.tensor([[3000.0, 1e-3]] * 999 + [[3000.0, 2e-3]])
    _, mean = pool_states(states, torch.zeros(1000, dtype=torch.long), torch.arange(1000), "mean")
    assert mean[0].tolist() == pytest.approx([3000.0, 1.001e-3], rel=1e-7)


def test_bfloat16_states_are_pooled() -> None:
    states = torch.randn(6, 4).bfloat16()
    number, position = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([1, 0, 2, 0, 1, 0])
    assert torch.equal(pool_states(states, number, position, "last")[1], states[[0, 2, 5]])
    assert torch.equal(pool_states(states, number, position, "first")[1], states[[1, 3, 5]])
    assert torch.equal(pool_states(states, number, position, "max")[1][1], states[2:5].max(0).values)


@pytest.mark.parametrize(
    ("texts", "how", "layers", "words"),
    [
        (["a", " "], "mean", None, "Sentence 2 is empty; expected at least one word"),
        (["a"], "median", None, "--pooling 'median' is not one of first, mean, last, max"),
        (["a"], "mean", "9", "--layers names layer 9, which does not exist: this model has layers 0 to 3"),
        (["a", "the " * 90], "mean", None, "Sentence 2 .* is longer than the 64 tokens"),
        (["\x00"], "mean", None, "Sentence 1 .* has no token in this vocabulary"),
    ],
)
def test_invalid_input_is_rejected(
    small_model: Callable[[str], Path], texts: list[str], how: str, layers: str | None, words: str
) -> None:
    model, tokenizer = load(small_model("bert"))
    with pytest.raises(InputError, match=words):
        embed_sentences(model, tokenizer, texts, layers, how)


def test_a_long_sentence_is_truncated_on_request(
    small_model: Callable[[str], Path],
) -> None:
    model, tokenizer = load(small_model("bert"))
    found = embed_sentences(model, tokenizer, ["a", "the " * 90], [1], "mean", truncate=True)
    assert found[1].shape == (2, 32)
