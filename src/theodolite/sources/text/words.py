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

    A word that a window's edge cuts in two counts as two, each by the text that it covers.
    """
    assert window.words is not None
    assert window.spans is not None
    numbers, spans = window.words[counted], window.spans[counted]
    starts = np.ones(len(counted), dtype=bool)
    if len(counted) > 1:
        starts[1:] = (numbers[1:] != numbers[:-1]) | (numbers[1:] < 0)
    of_token = np.cumsum(starts) - 1
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(counted)) - 1
    codes = np.empty(len(begins), dtype=np.int64)
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if numbers[begin] < 0:
            codes[row] = special_codes[window.ids[counted[begin]]]
        else:
            word = text[spans[begin, 0] : spans[end, 1]].strip()
            codes[row] = units.add(Unit(word, word, None, False, float(end - begin + 1)))
    return Words(codes, of_token.astype(np.int64), counted[begins], counted[ends])
