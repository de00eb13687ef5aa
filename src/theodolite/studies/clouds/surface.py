"""What the surface of documents gives away: casing, punctuation and unknown words, and documents without them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEATURES = ("casing", "punctuation", "unknown")
MARKS = ".,;:!?'\"()-/@#&*"
"""Marks that are counted one by one; all other punctuation is counted together."""
UNKNOWN = re.compile(r"<unk>|\[unk\]|@-@|@,@|@\.@", re.IGNORECASE)
"""What corpora write for words they do not have, and WikiText for joints inside words."""


def surface_features(texts: Sequence[str], unknown: Sequence[float]) -> dict[str, Array]:
    """Return features of each document by name: (documents, features). unknown: share of unknown tokens"""
    rare = [[share, len(UNKNOWN.findall(text)) / _words(text)] for text, share in zip(texts, unknown, strict=True)]
    made = {
        "casing": [_casing(text) for text in texts],
        "punctuation": [_punctuation(text) for text in texts],
        "unknown": rare,
    }
    return {name: np.array(rows, dtype=np.float64) if rows else np.empty((0, 1)) for name, rows in made.items()}


def plain_text(text: str) -> str:
    """Return a text in lower case, without punctuation, symbols and marks of unknown words.

    >>> plain_text("The <unk> of Rome, he said, was 1 @,@ 200 feet!")
    'the of rome he said was 1 200 feet'
    """
    bare = UNKNOWN.sub(" ", text).lower()
    return " ".join("".join(c if unicodedata.category(c)[0] not in "PSC" else " " for c in bare).split())


def _casing(text: str) -> list[float]:
    """Return the shares of capitals among letters, and of words that begin with one or consist of them."""
    letters = [c for c in text if c.isalpha()]
    words = [word for word in text.split() if word[0].isalpha()]
    return [
        sum(map(str.isupper, letters)) / max(len(letters), 1),
        sum(word[0].isupper() for word in words) / max(len(words), 1),
        sum(word.isupper() for word in words) / max(len(words), 1),
    ]


def _punctuation(text: str) -> list[float]:
    """Return each mark per character, and all other punctuation."""
    size = max(len(text), 1)
    others = sum(unicodedata.category(c)[0] in "PS" and c not in MARKS for c in text)
    return [*(text.count(mark) / size for mark in MARKS), others / size]


def _words(text: str) -> int:
    return max(len(text.split()), 1)
