"""A small BERT whose input table is planted: words of some classes at vectors of the test's choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tests.small_models import POSITIONS, save

DIM = 32
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tokenizer(words: list[str]) -> Any:
    """A vocabulary of these words, lower-cased, and the letters that longer words are made of."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary = {piece: n for n, piece in enumerate(dict.fromkeys([*SPECIALS, *words, "q", *letters]))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=POSITIONS, **names)


def plant(folder: Path, rows: Mapping[str, NDArray[np.float64]]) -> str:
    """Save a model in whose input table every word has the given row; return its folder."""
    from transformers import BertConfig, BertModel

    spelling = tokenizer(list(rows))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(spelling),
        hidden_size=DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=POSITIONS,
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        for word, row in rows.items():
            model.embeddings.word_embeddings.weight[spelling.convert_tokens_to_ids(word)] = torch.from_numpy(row)
    save(model, spelling, folder)
    return str(folder)


def clusters(
    classes: int, count: int, *, apart: float, seed: int = 0
) -> tuple[dict[str, NDArray[np.float64]], list[tuple[str, str]]]:
    """Return rows of words, `count` per class, about class centres `apart` from the middle, and their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, DIM)) * apart
    rows, labels = {}, []
    for label in range(classes):
        for number in range(count):
            word = f"{'abcdefgh'[label]}{'abcdefghijklmnopqrstuvwxyz'[number % 26]}{'xyzuvw'[number // 26]}"
            rows[word] = centres[label] + rng.normal(size=DIM)
            labels.append((word, f"class {label}"))
    return rows, labels
