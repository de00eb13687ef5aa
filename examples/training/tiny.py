"""What the examples share: a small byte-level Llama, its tokenizer, and text. Nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch

TEXTS = [
    f"The {colour} {animal} {verb} over the {place}, and {number} others followed it."
    for number, (colour, animal, verb, place) in enumerate(
        zip("red blue grey black white brown".split() * 5, "fox hen dog cat owl hare".split() * 5,
            "ran jumped flew".split() * 10, "hill wall river road field".split() * 6, strict=True)
    )
]  # fmt: skip


def make_model(seed: int = 0) -> tuple[Any, Any]:
    """Return a model and its tokenizer."""
    from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = ByT5Tokenizer(extra_ids=0, model_max_length=128)
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=128, **shape)
    return LlamaForCausalLM(config), tokenizer


def make_rows(tokenizer: Any, length: int = 32) -> list[dict[str, torch.Tensor]]:
    """Return rows of token ids, as trainers read them."""
    ids = torch.tensor([token for text in TEXTS for token in tokenizer(text)["input_ids"]])
    rows = ids[: len(ids) // length * length].reshape(-1, length)
    return [{"input_ids": row, "labels": row} for row in rows]
