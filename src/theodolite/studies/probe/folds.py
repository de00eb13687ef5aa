"""Folds whose test sets hold the same number of words of every class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def folds(labels: Index, count: int, rng: np.random.Generator) -> Iterator[tuple[Index, Index]]:
    """Give training and test rows of each fold: every class is shuffled and dealt out like cards.

    Classes of one size give test sets that are balanced exactly, whatever `count` divides. labels: (words,)

    >>> [test.tolist() for _, test in folds(np.array([0, 0, 1, 1]), 2, np.random.default_rng(0))]
    [[0, 2], [1, 3]]
    """
    fold = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        fold[members] = np.arange(len(members)) % count
    for number in range(count):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)
