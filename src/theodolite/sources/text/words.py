"""Words: the tokenizer's own word boundaries, and which tokens make each word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.sources.text.windows import Window
from theodolite.sources.units import Unit, Units

Integers = NDArray[np.int64]


class Words(NamedTuple):
    """The rows that a window gives: tokens, or words made of several."""

    code: Integers  # (rows,) the unit's code
    of_token: Integers  # (counted tokens,) the row that each token belongs to
    first: Integers  # (rows,) position of its first token in the window
    last: Integers  # (rows,) position of its last


def words_of(window: Window, counted: Integers, text: str, units: Units, special_codes: Integers) -> Words:
    """Group a window's counted tokens into words. A special token is a word of its own.

    Words are the tokenizer's own, and end at white space even where the tokenizer knows no words (Llama 2's takes
    a whole document for one). A word that a window's edge cuts in two counts as two, each by the text it covers.
    """
    assert window.words is not None
    assert window.spans is not None
    numbers, spans = window.words[counted], window.spans[counted]
    starts = np.ones(len(counted), dtype=bool)
    if len(counted) > 1:
        runs = _runs(text, spans[:, 0], numbers >= 0)
        starts[1:] = (numbers[1:] != numbers[:-1]) | (numbers[1:] < 0) | (runs[1:] != runs[:-1])
    of_token = np.cumsum(starts) - 1
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(counted))[: len(begins)] - 1  # a window may hold nothing that counts
    codes = np.empty(len(begins), dtype=np.int64)
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if numbers[begin] < 0:
            codes[row] = special_codes[window.ids[counted[begin]]]
        else:
            covered = text[spans[begin, 0] : spans[end, 1]]
            word = covered.strip() or covered
            codes[row] = units.add(Unit(word, word, None, False, float(end - begin + 1)))
    return Words(codes, of_token.astype(np.int64), counted[begins], counted[ends])


def _runs(text: str, at: Integers, real: NDArray[np.bool_]) -> Integers:
    """Number the stretches without white space in which tokens begin; white space counts to the one after it.

    Special tokens stand nowhere and get 0. All (tokens,).
    """
    runs = np.zeros(len(at), dtype=np.int64)
    if real.any():
        low, high = int(at[real].min()), int(at[real].max()) + 1
        space = np.array([*map(str.isspace, text[low:high]), True])[: high - low]
        begins = ~space & np.append(True, space[:-1])
        runs[real] = (np.cumsum(begins) + space)[at[real] - low]
    return runs
