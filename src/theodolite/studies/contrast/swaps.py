"""Random swaps: the same templates with random words exchanged, and the words of each class by themselves."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.sources.text.units import special_ids
from theodolite.studies.contrast.pairs import Pairs
from theodolite.studies.groups.sentences import WORDS
from theodolite.studies.probe.selection import marks_spaces
from theodolite.studies.tokenization import token_ids

WORD = re.compile(r"[^\W_]+")
Array = NDArray[np.float64]
Words = dict[str, list[tuple[str, str]]]
"""By class: the words that only the first sentence of a pair has and those that only the second has."""


def exchanged_words(a: str, b: str) -> tuple[list[str], list[str]]:
    """Return the words that only a has and those that only b has, in lower case.

    >>> exchanged_words("The actress won.", "The actor won")
    (['actress'], ['actor'])
    """
    one, other = (Counter(WORD.findall(text.lower())) for text in (a, b))
    return list((one - other).elements()), list((other - one).elements())


def make_random_swaps(pairs: Pairs, count: int, *, seed: int = 0) -> dict[str, list[list[tuple[str, str]]]]:
    """Return `count` random versions of each class: every exchanged word replaced by a random common word.

    Within a version a word is always replaced by the same word, so that a version has as many different swaps, in
    the same templates, as the class. A class that exchanges no words has no versions.
    """
    made: dict[str, list[list[tuple[str, str]]]] = {}
    for number, (name, members) in enumerate(pairs.items()):
        sides = [exchanged_words(a, b) for a, b in members]
        words = list(dict.fromkeys(word for pair in sides for side in pair for word in side))
        rng = np.random.default_rng([seed, number])
        pool = [word for word in WORDS if word not in words]
        made[name] = []
        for _ in range(count if words else 0):
            drawn = rng.choice(len(pool), len(words), replace=len(words) > len(pool))
            new = {word: pool[int(at)] for word, at in zip(words, drawn, strict=True)}
            made[name].append(
                [
                    (_replace(a, {w: new[w] for w in left}), _replace(b, {w: new[w] for w in right}))
                    for (a, b), (left, right) in zip(members, sides, strict=True)
                ]
            )
    return made


def _replace(sentence: str, new: dict[str, str]) -> str:
    def swap(found: re.Match[str]) -> str:
        word = new.get(found[0].lower())
        if word is None:
            return found[0]
        return word.capitalize() if found[0][:1].isupper() else word

    return WORD.sub(swap, sentence)


def list_words(pairs: Pairs) -> Words:
    """Return the different swaps of each class; pairs that exchange words on one side only have none."""
    found: Words = {}
    for name, members in pairs.items():
        sides = [exchanged_words(a, b) for a, b in members]
        found[name] = list(dict.fromkeys((" ".join(a), " ".join(b)) for a, b in sides if a and b))
    return found


def read_word_vectors(network: Any, tokenizer: Any, words: Words) -> dict[str, tuple[Array, Array]]:
    """Return the rows of the input table for the swaps of each class, the mean over the tokens of a word.

    -> by class: (swaps, dim) of the first sentences' words and of the second ones'; empty if there is no table.
    """
    table = network.get_input_embeddings()
    weight = getattr(table, "weight", None)
    if weight is None:
        return {}
    rows = weight.detach().double().cpu().numpy()
    before, special = " " if marks_spaces(tokenizer) else "", special_ids(tokenizer)

    def mean(texts: list[str]) -> Array:
        ids = [[i for i in each if i not in special] for each in token_ids(tokenizer, [before + t for t in texts])]
        vectors = [rows[each].mean(axis=0) if each else np.full(rows.shape[1], np.nan) for each in ids]
        return np.array(vectors, dtype=np.float64).reshape(len(texts), rows.shape[1])

    return {name: (mean([a for a, _ in swaps]), mean([b for _, b in swaps])) for name, swaps in words.items()}
