"""Nonsense to compare with: random characters and random words, as long as real sentences, made by seed."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

import numpy as np

from theodolite.studies.groups.words import WORDS

CHARACTERS, RANDOM_WORDS = "random characters", "random words"
CONTROLS = (CHARACTERS, RANDOM_WORDS)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def nonsense(sentences: Sequence[str], kind: str, count: int, seed: int) -> list[str]:
    """Return nonsense sentences of a kind, each with the words, spaces and punctuation of one drawn at random.

    `random characters` has random letters in the place of letters and digits, `random words` has a common English
    word in the place of each word; capitals stay where they were.

    >>> nonsense(["Hello there, you!"], "random characters", 1, seed=0)
    ['Wqnhi bbaev, qxn!']
    >>> nonsense(["Hello there, you!"], "random words", 1, seed=0)
    ['Metal towel, yard!']
    """
    rng = np.random.default_rng([seed, CONTROLS.index(kind)])
    drawn = [sentences[int(number)] for number in rng.integers(len(sentences), size=count)]
    return [_WORD.sub(lambda match: _other(match[0], kind, rng), sentence) for sentence in drawn]


def _other(word: str, kind: str, rng: np.random.Generator) -> str:
    if kind == CHARACTERS:
        made = "".join(string.ascii_lowercase[int(number)] for number in rng.integers(26, size=len(word)))
    else:
        made = WORDS[int(rng.integers(len(WORDS)))]
    return made.capitalize() if word[:1].isupper() else made
