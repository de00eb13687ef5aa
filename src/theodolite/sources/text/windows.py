"""Windows: documents tokenized and cut to what the model can take, nothing dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError

DEFAULT_MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one document with the special tokens that every window gets."""

    document: int
    number: int
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    words: NDArray[np.int64] | None = None  # (tokens,) number of the word, -1 for a special token
    spans: NDArray[np.int64] | None = None  # (tokens, 2) where each token stands in the document

    def __len__(self) -> int:
        return len(self.ids)


def longest_window(config: Any, tokenizer: Any, asked: int | None) -> int:
    """Return how many tokens a window may hold: what was asked for, or the model's limit up to 512."""
    limit = min(_positions(config), int(tokenizer.model_max_length))
    if asked is None:
        return min(DEFAULT_MAX_TOKENS, limit)
    least = int(tokenizer.num_special_tokens_to_add()) + 1
    if asked < least:
        raise InputError(f"--max-tokens {asked} leaves no room for text: this tokenizer needs at least {least}.")
    if asked > limit:
        raise InputError(f"--max-tokens {asked} is more than this model takes; it takes {limit}.")
    return asked


def _positions(config: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return 2**31
    # RoBERTa and its kin count positions from padding_idx + 1, so their table is that much longer than a window.
    kin = ("roberta", "camembert", "xlm-roberta", "longformer", "xmod", "data2vec-text", "mpnet", "esm", "luke")
    offset = (config.pad_token_id or 0) + 1 if config.model_type.startswith(kin) else 0
    return positions - offset


def cut(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, *, words: bool = False
) -> list[Window]:
    """Tokenize (number, text) pairs and cut them into windows of at most max_tokens, special tokens included."""
    if not documents:
        return []
    encoded = tokenizer(
        [encodable(text) for _, text in documents],
        truncation=True,
        max_length=max_tokens,
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=words,
    )
    windows: list[Window] = []
    previous, number = -1, 0
    for row, at in enumerate(encoded["overflow_to_sample_mapping"]):
        number = number + 1 if at == previous else 0
        previous = at
        ids = np.asarray(encoded["input_ids"][row], dtype=np.int64)
        if not len(ids):
            continue
        special = np.asarray(encoded["special_tokens_mask"][row], dtype=np.bool_)
        numbers = spans = None
        if words:
            numbers = np.array([-1 if w is None else w for w in encoded.word_ids(row)], dtype=np.int64)
            spans = np.asarray(encoded["offset_mapping"][row], dtype=np.int64)
        windows.append(Window(documents[at][0], number, ids, special, numbers, spans))
    return windows


def encodable(text: str) -> str:
    """Return the text as the tokenizer sees it: surrogates that no tokenizer takes joined in pairs or replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def buckets(windows: Sequence[Window], budget: int, *, pads: bool = True) -> list[list[Window]]:
    """Group windows of like length so that no group pads to more than `budget` tokens; a group holds at least one.

    A pure function of the windows: sorted by length, equal lengths in their order. Without `pads` a group holds
    windows of one length only, for models whose states padding would move.
    """
    groups: list[list[Window]] = []
    for window in sorted(windows, key=len):
        fits = groups and (pads or len(groups[-1][0]) == len(window))
        if fits and (len(groups[-1]) + 1) * len(window) <= budget:
            groups[-1].append(window)
        else:
            groups.append([window])
    return groups
