"""A tiny training run, so that tests can check whether something changes it."""

from __future__ import annotations

from typing import Any

import torch
from tests.small_models import TOKENIZERS, sentences


def tiny(kind: str = "decoder", *, dropout: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    """Return a model with a head and its tokenizer."""
    from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

    tokenizer = TOKENIZERS["llama" if kind == "decoder" else "bert"]()
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 32, "max_position_embeddings": 64, "vocab_size": len(tokenizer)}
    if kind == "decoder":
        model: Any = LlamaForCausalLM(LlamaConfig(**shape, attention_dropout=dropout))
    else:
        model = BertForMaskedLM(
            BertConfig(**shape, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
        )
    return model, tokenizer


def rows_of(tokenizer: Any, count: int = 24, length: int = 12) -> list[dict[str, list[int]]]:
    """Return examples of one length, as a Trainer takes them."""
    ids = [i for text in sentences(200, seed=5) for i in tokenizer(text)["input_ids"]]
    cut = [ids[k * length : (k + 1) * length] for k in range(count)]
    return [{"input_ids": part, "labels": part, "attention_mask": [1] * length} for part in cut]


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """Return copies of every parameter and buffer."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Return whether two models agree in every bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
