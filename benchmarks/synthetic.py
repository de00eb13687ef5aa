"""Synthetic data for benchmarks: a BERT with random weights, and generated sentences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

SENTENCES, TOKENS = 739_106, 12_300_000
"""The size of the paper's corpus."""
VOCABULARY, FIRST, LAST = 30_522, 101, 102
"""BERT's number of ids, and the ids at the start and the end of every sentence."""


def sentence_lengths(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Return sentence lengths in tokens, including special ones: log-normal with the paper's mean of 16.6."""
    drawn = np.random.default_rng(seed).lognormal(0.0, 0.5, count)
    return np.clip(np.rint(drawn * (TOKENS / SENTENCES) / math.exp(0.125)), 4, 128).astype(np.int64)


def zipf_ids(count: int, vocabulary: int, seed: int = 1) -> NDArray[np.int64]:
    """Return ids whose frequency is proportional to 1/rank, without special ids."""
    least = min(1000, vocabulary // 10)
    cumulative = np.cumsum(1 / np.arange(1, vocabulary - least + 1))
    drawn = np.random.default_rng(seed).random(count) * cumulative[-1]
    return least + np.searchsorted(cumulative, drawn)


def make_model(folder: Path, layers: int = 12, dim: int = 768) -> Path:
    """Write a BERT of this shape with random weights, and a tokenizer for its vocabulary; return the folder."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=dim // 64,
        intermediate_size=4 * dim,
    )
    torch.manual_seed(0)
    model = BertModel(config, add_pooling_layer=False).to(torch.bfloat16)
    model.save_pretrained(folder)
    special = {0: "[PAD]", 100: "[UNK]", FIRST: "[CLS]", LAST: "[SEP]", 103: "[MASK]"}
    words = {special.get(code, make_word(code)): code for code in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", LAST), ("[CLS]", FIRST))
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, **{f"{k}_token": v for k, v in names.items()}
    )
    fast.save_pretrained(folder)
    return folder


def make_word(code: int) -> str:
    """Return a word of four to five letters for an id. No word is a prefix of a word piece."""
    letters = []
    rest = code + 26**3
    while rest:
        rest, letter = divmod(rest, 26)
        letters.append(chr(97 + letter))
    return "".join(letters)


def write_text(path: Path, count: int) -> int:
    """Write sentences of generated words with the same lengths and frequencies; return their number of tokens."""
    names = np.array([make_word(code) for code in range(VOCABULARY)], dtype=object)
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 50_000):
            sizes = sentence_lengths(min(50_000, count - start), seed=start + 1) - 2
            words = names[zipf_ids(int(sizes.sum()), VOCABULARY, seed=start + 2)]
            file.writelines(" ".join(part) + "\n" for part in np.split(words, np.cumsum(sizes)[:-1]))
            total += int(sizes.sum()) + 2 * len(sizes)
    return total
