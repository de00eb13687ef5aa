"""Documents cut to a number of tokens, so that clouds can be compared at equal length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from theodolite.sources.text.windows import encodable

SHORTEST = 3
"""Documents of fewer tokens say too little to match by."""


def cut(tokenizer: Any, texts: Sequence[str], tokens: int) -> list[tuple[str, int]]:
    """Return each text cut after so many tokens, special ones not counted, and how many it then has.

    A text that is cut inside a word may be spelled otherwise than before, so tokens are counted again.
    """
    plain = [encodable(text) for text in texts]
    ends = [_end(tokenizer, text, tokens) for text in plain]
    short = [text[:end] for text, end in zip(plain, ends, strict=True)]
    return [(text, len(tokenizer(text, add_special_tokens=False)["input_ids"])) for text in short]


def _end(tokenizer: Any, text: str, tokens: int) -> int:
    """Return where a text ends after so many tokens."""
    if not tokenizer.is_fast:  # characters and bytes: none is shorter than a token
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return len(text) if len(ids) <= tokens else len(tokenizer.decode(ids[:tokens]))
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=True, max_length=tokens
    )
    whole = len(encoded["input_ids"]) < tokens
    return len(text) if whole else int(encoded["offset_mapping"][-1][1])


def first_of_each(texts: Sequence[str]) -> list[int]:
    """Return where each different text stands first.

    >>> first_of_each(["a", "b", "a"])
    [0, 1]
    """
    return sorted({text: at for at, text in reversed(list(enumerate(texts)))}.values())


def common_length(counts: Sequence[Sequence[int]]) -> int:
    """Return the most tokens that at least half of the documents of every corpus have.

    >>> common_length([[2, 8, 9], [30, 40, 50]])
    8
    """
    return int(min(np.quantile(each, 0.5, method="lower") for each in counts))
