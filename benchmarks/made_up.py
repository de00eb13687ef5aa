"""What benchmarks survey where nothing real is at hand: a BERT of random weights, and made-up sentences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

SENTENCES, TOKENS = 739_106, 12_300_000
"""Of the paper's corpus."""
VOCABULARY, FIRST, LAST = 30_522, 101, 102
"""Of BERT: how many ids, and those that every sentence begins and ends with."""


def lengths(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Lengths of sentences in tokens, special ones included: log-normal about the paper's mean of 16.6."""
    drawn = np.random.default_rng(seed).lognormal(0.0, 0.5, count)
    return np.clip(np.rint(drawn * (TOKENS / SENTENCES) / math.exp(0.125)), 4, 128).astype(np.int64)


def zipf(count: int, vocabulary: int, seed: int = 1) -> NDArray[np.int64]:
    """Ids whose frequency falls as 1/rank, none of them special."""
    least = min(1000, vocabulary // 10)
    cumulative = np.cumsum(1 / np.arange(1, vocabulary - least + 1))
    drawn = np.random.default_rng(seed).random(count) * cumulative[-1]
    return least + np.searchsorted(cumulative, drawn)


def model_folder(folder: Path, layers: int = 12, dim: int = 768) -> Path:
    """A BERT of these shapes with random weights, and a tokenizer of as many words."""
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
    words = {special.get(code, word(code)): code for code in range(VOCABULARY)}
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


def word(code: int) -> str:
    """A made-up word of four to five letters for every id, no one the beginning of a piece."""
    letters = []
    rest = code + 26**3
    while rest:
        rest, letter = divmod(rest, 26)
        letters.append(chr(97 + letter))
    return "".join(letters)


def text_file(path: Path, count: int) -> int:
    """Sentences of made-up words with the same lengths and frequencies; return how many tokens they have."""
    names = np.array([word(code) for code in range(VOCABULARY)], dtype=object)
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 50_000):
            sizes = lengths(min(50_000, count - start), seed=start + 1) - 2
            words = names[zipf(int(sizes.sum()), VOCABULARY, seed=start + 2)]
            file.writelines(" ".join(part) + "\n" for part in np.split(words, np.cumsum(sizes)[:-1]))
            total += int(sizes.sum()) + 2 * len(sizes)
    return total
