"""Alignment: which token of one sentence stands for which of another."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple


class Aligned(NamedTuple):
    """A place in each of two sentences, and whether the same token stands there."""

    one: int
    other: int
    same: bool


def align(one: Sequence[int], other: Sequence[int]) -> list[Aligned]:
    """Align two sentences by their ids: runs that are equal, and replacements of as many tokens as they replace.

    >>> align([1, 2, 3, 4], [1, 9, 3, 5, 6])
    [Aligned(one=0, other=0, same=True), Aligned(one=1, other=1, same=False), Aligned(one=2, other=2, same=True)]
    """
    found = []
    for tag, start, stop, begin, end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and stop - start == end - begin):
            pairs = zip(range(start, stop), range(begin, end), strict=True)
            found += [Aligned(left, right, tag == "equal") for left, right in pairs]
    return found
