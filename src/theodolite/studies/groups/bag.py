"""Sentences as bags of words: what the words alone tell apart, without any model."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def bags(sentences: Sequence[str]) -> NDArray[np.float64]:
    """Return how often each word is in each sentence, capitals ignored. (sentences, words)

    >>> bags(["A cat, a dog.", "The cat."])
    array([[2., 1., 1., 0.],
           [0., 1., 0., 1.]])
    """
    written = [re.findall(r"\w+", sentence.casefold()) for sentence in sentences]
    column = {word: number for number, word in enumerate(dict.fromkeys(word for each in written for word in each))}
    table = np.zeros((len(sentences), max(len(column), 1)))
    for row, words in enumerate(written):
        for word in words:
            table[row, column[word]] += 1
    return table
