"""Encoding many short texts: what a tokenizer's call gives, without its step for every text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SETTING = Lock()
"""The Rust part refuses to be set while another thread encodes; what is set already is not set again."""


class Encoded(NamedTuple):
    """Windows of several texts, one after the other."""

    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    lengths: NDArray[np.int64]  # (windows,)
    text: NDArray[np.int64]  # (windows,) which text each is of


def encode(tokenizer: Any, texts: Sequence[str], most: int) -> Encoded | None:
    """Encode texts in windows of at most `most` tokens; None where the tokenizer has ways of its own.

    The call of a fast tokenizer runs its Rust part and makes Python lists of all it found in each text. This takes
    the two lists that are wanted: a third of the time where texts are short and cores are many.
    """
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import PaddingStrategy

    kind = type(tokenizer)
    usual = isinstance(tokenizer, PreTrainedTokenizerFast)
    for step in ("__call__", "_encode_plus", "set_truncation_and_padding", "_convert_encoding"):
        usual = usual and getattr(kind, step, None) is getattr(PreTrainedTokenizerFast, step, tokenizer)
    if not usual:
        return None
    from transformers.tokenization_utils_base import TruncationStrategy

    backend = tokenizer.backend_tokenizer
    with _SETTING:
        tokenizer.set_truncation_and_padding(
            padding_strategy=PaddingStrategy.DO_NOT_PAD,
            truncation_strategy=TruncationStrategy.LONGEST_FIRST,
            max_length=most,
            stride=0,
            pad_to_multiple_of=None,
            padding_side=None,
        )
        if backend.encode_special_tokens != tokenizer.split_special_tokens:  # not while another thread encodes
            backend.encode_special_tokens = tokenizer.split_special_tokens
    encodings = backend.encode_batch(list(texts), add_special_tokens=True)
    overflows = [encoding.overflowing for encoding in encodings]
    windows = list(chain.from_iterable([one, *more] for one, more in zip(encodings, overflows, strict=True)))
    ids = [window.ids for window in windows]
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    tokens = int(lengths.sum())
    special = chain.from_iterable(window.special_tokens_mask for window in windows)
    counts = np.fromiter((1 + len(more) for more in overflows), dtype=np.int64, count=len(overflows))
    return Encoded(
        np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=tokens),
        np.fromiter(special, dtype=np.int8, count=tokens).astype(np.bool_),
        lengths,
        np.repeat(np.arange(len(counts)), counts),
    )
