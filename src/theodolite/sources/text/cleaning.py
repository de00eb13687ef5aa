"""Cleaned words: the text as appendix J of the paper fed it to the model, without punctuation and numbers."""

from __future__ import annotations

import re

SHORTEST, LONGEST = 2, 15  # letters
_LETTERS = re.compile(r"[^\W\d_]+")


def cleaned(text: str) -> str:
    """Return the words of a text joined by single spaces, and nothing else of it.

    A word is a longest run of Unicode letters (and of such numerals as ² and Ⅷ, which are no digits), lowercased,
    of 2 to 15 of them. All else ends a word and is left out: punctuation, digits, symbols, underscores, and so
    apostrophes and hyphens inside words. Runs of one letter and of more than 15 are left out too. These are the
    words of the authors' released code, which takes gensim's simple_preprocess with min_len=2.

    >>> cleaned("“Don't!” — 3.14 half-way, I said; naïve 東京...")
    'don half way said naïve 東京'
    >>> cleaned("1,024 ... ?!")
    ''

    Reference: Yamagiwa and Shimodaira 2024, appendix J.
    """
    return " ".join(word for word in _LETTERS.findall(text.lower()) if SHORTEST <= len(word) <= LONGEST)
