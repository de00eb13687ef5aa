"""Words of many texts counted at once, as `str.split` counts them."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_BEYOND = 0x3001  # no white space has a code from here on


def word_counts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return how many words each text has: len(text.split()). (texts,)

    Memory: the texts once more, and four bytes for a character where one of them is not ASCII.

    >>> word_counts(["one", "", "two\\u2003 words "]).tolist()
    [1, 0, 2]
    """
    return words_within("".join(texts), np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))


def words_within(whole: str, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what `word_counts` does of texts that stand one after the other, each of so many characters. (texts,)

    >>> words_within("onetwo words", np.array([3, 9])).tolist()
    [1, 2]
    """
    ends = np.cumsum(lengths)
    space = _spaces(whole)
    begins = ~space
    begins[1:] &= space[:-1]
    starts = np.append(0, ends[:-1])[: len(ends)]
    starts = starts[starts < len(space)]
    begins[starts] = ~space[starts]  # the text before ends with no space, as a rule
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), ends), prepend=0)
    return counts.astype(np.int64, copy=False)


def _spaces(text: str) -> NDArray[np.bool_]:
    """Say of every character whether it is white space."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii").translate(_is_space().tobytes()[:256]), dtype=np.bool_)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    space: NDArray[np.bool_] = _is_space()[np.minimum(codes, _BEYOND)]
    return space


@cache
def _is_space() -> NDArray[np.bool_]:
    return np.array([chr(code).isspace() for code in range(_BEYOND + 1)])
