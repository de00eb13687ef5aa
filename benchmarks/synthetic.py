"""Synthetic data for benchmarks: models of known shapes with random weights, and generated text."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SENTENCES, TOKENS = 739_106, 12_300_000
"""The size of the paper's corpus."""
FIRST, LAST = 101, 102
"""The ids at the start and the end of every window; a decoder has only the first."""
SPECIAL = {0: "[PAD]", 100: "[UNK]", FIRST: "[CLS]", LAST: "[SEP]", 103: "[MASK]"}


@dataclass(frozen=True)
class Shape:
    """The shape of a model, and the size of the corpus that it reads."""

    name: str
    layers: int
    dim: int
    heads: int
    inner: int
    vocabulary: int
    windows: int  # at scale 1
    shortest: int  # window, in tokens
    longest: int
    key_heads: int = 0  # of grouped-query attention; 0 for an encoder

    @property
    def causal(self) -> bool:
        """Whether the model is a decoder of the Llama family rather than BERT."""
        return self.key_heads > 0

    def resized(self, layers: int | None, dim: int | None) -> Shape:
        """Return the same family with other sizes, to try a benchmark quickly."""
        width = dim or self.dim
        head = self.dim // self.heads
        heads = max(width // head, 1) if width != self.dim else self.heads
        return replace(
            self,
            layers=layers or self.layers,
            dim=width,
            heads=heads,
            inner=self.inner * width // self.dim,
            key_heads=heads if self.causal and width != self.dim else self.key_heads,
        )

    def config(self) -> Any:
        """Return the configuration of transformers."""
        from transformers import BertConfig, LlamaConfig

        sizes = {
            "vocab_size": self.vocabulary,
            "hidden_size": self.dim,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
        }
        if not self.causal:
            return BertConfig(**sizes)
        rope = {"rope_type": "default", "rope_theta": 500_000.0}
        return LlamaConfig(
            **sizes, num_key_value_heads=self.key_heads, max_position_embeddings=131_072, rope_parameters=rope,
            bos_token_id=FIRST, eos_token_id=LAST, pad_token_id=0, use_cache=False, dtype="bfloat16",
        )  # fmt: skip

    def make_model(self, device: str | torch.device) -> Any:
        """Return the model with random weights in bfloat16 on a device."""
        from transformers import BertModel, LlamaModel

        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(device):
                config = self.config()
                model = LlamaModel(config) if self.causal else BertModel(config, add_pooling_layer=False)
        finally:
            torch.set_default_dtype(before)
        return model.eval().requires_grad_(False)

    def make_tokenizer(self) -> Any:
        """Return a tokenizer of generated words, one for each id."""
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        words = {SPECIAL.get(code, make_word(code)): code for code in range(self.vocabulary)}
        if self.causal:
            tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
            tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
            tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A", None, [("[CLS]", FIRST)])
        else:
            tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
            tokenizer.normalizer = normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.post_processor = processors.BertProcessing(("[SEP]", LAST), ("[CLS]", FIRST))
        names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=self.longest,
            **{f"{k}_token": v for k, v in names.items()},
        )

    def lengths(self, count: int, seed: int = 0) -> NDArray[np.int64]:
        """Return lengths of windows in tokens, including special ones.

        An encoder reads sentences: log-normal with the paper's mean of 16.6. A decoder reads longer windows.
        """
        generator = np.random.default_rng(seed)
        if self.causal:
            return generator.integers(self.shortest, self.longest, count, endpoint=True)
        drawn = generator.lognormal(0.0, 0.5, count) * (TOKENS / SENTENCES) / math.exp(0.125)
        return np.clip(np.rint(drawn), self.shortest, self.longest).astype(np.int64)

    def ids(self, count: int, seed: int = 1) -> NDArray[np.int64]:
        """Return ids without special ones, whose frequency falls with their rank.

        An encoder: 1/rank. A decoder, whose vocabulary is larger than what a text uses: 1/rank up to rank 5,000,
        then 1/rank^2.3. Half a million tokens then have 20,000 different ids, and WikiText has 18,000.
        """
        least = min(1000, self.vocabulary // 10)
        rank = np.arange(1, self.vocabulary - least + 1)
        share = 1 / rank if not self.causal else np.where(rank < 5000, 1 / rank, 5000**1.3 / rank**2.3)
        cumulative = np.cumsum(share)
        drawn = np.random.default_rng(seed).random(count) * cumulative[-1]
        return least + np.searchsorted(cumulative, drawn)

    def write_text(self, path: Path, count: int) -> int:
        """Write `count` documents with these lengths and frequencies; return their number of tokens."""
        names = np.array([make_word(code) for code in range(self.vocabulary)], dtype=object)
        special = 1 if self.causal else 2
        total, at_once = 0, 50_000 if not self.causal else 500
        with path.open("w", encoding="utf-8") as file:
            for start in range(0, count, at_once):
                sizes = self.lengths(min(at_once, count - start), seed=start + 1) - special
                words = names[self.ids(int(sizes.sum()), seed=start + 2)]
                file.writelines(" ".join(part) + "\n" for part in np.split(words, np.cumsum(sizes)[:-1]))
                total += int(sizes.sum()) + special * len(sizes)
        return total


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("bert-base", 12, 768, 12, 3072, 30_522, SENTENCES, 4, 128),
        Shape("bert-base-512", 12, 768, 12, 3072, 30_522, TOKENS // 512, 512, 512),
        Shape("llama-1b", 16, 2048, 32, 8192, 128_256, 1562, 512, 2048, key_heads=8),
        Shape("llama-8b", 32, 4096, 32, 14_336, 128_256, 1562, 512, 2048, key_heads=8),
    )
}
"""BERT-base reads sentences, or windows of 512 tokens. The decoders have the shapes of Llama 3; 1,562 windows of
512 to 2,048 tokens are two million tokens."""


def save_model(shape: Shape, folder: Path) -> Path:
    """Write the model and its tokenizer, as users have them; return the folder."""
    shape.make_model("cpu").save_pretrained(folder)
    shape.make_tokenizer().save_pretrained(folder)
    return folder


def make_word(code: int) -> str:
    """Return a word of four to five letters for an id. No word is a prefix of a word piece."""
    letters = []
    rest = code + 26**3
    while rest:
        rest, letter = divmod(rest, 26)
        letters.append(chr(97 + letter))
    return "".join(letters)
