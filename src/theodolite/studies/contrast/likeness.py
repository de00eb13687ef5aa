"""How alike the two sentences of a pair are in what is not their meaning: punctuation and length."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from theodolite.studies.contrast.pairs_file import Pairs

KEYS = "class pair a b swap tokens_a tokens_b punctuation_a punctuation_b".split()
MARKS = "same punctuation_differs words_differ tokens_differ repeated".split()


def pairs_table(pairs: Pairs, tokens: Sequence[int]) -> pd.DataFrame:
    """Return a row a pair: its sentences, their tokens and punctuation, and in what they differ.

    `same`: both sentences are one; `repeated`: the pair was there before, in this class or another; `swap`: the
    words that only one of them has. tokens: two counts a pair, in the order of the pairs, special ones left out.
    """
    rows, seen = [], set[tuple[str, str]]()
    counts = iter(tokens)
    for name, members in pairs.items():
        for number, (a, b) in enumerate(members, 1):
            left, right = punctuation(a), punctuation(b)
            of = next(counts), next(counts)
            marks = (a == b, left != right, len(a.split()) != len(b.split()), of[0] != of[1], (a, b) in seen)
            seen.add((a, b))
            rows.append(
                dict(zip(KEYS, (name, number, a, b, swap(a, b), *of, left, right), strict=True))
                | dict(zip(MARKS, marks, strict=True))
            )
    return pd.DataFrame(rows, columns=[*KEYS, *MARKS])


def punctuation(sentence: str) -> str:
    """Return the punctuation marks of a sentence, in order.

    >>> punctuation("On a dim day, it's over.")
    ",'."
    """
    return "".join(char for char in sentence if unicodedata.category(char).startswith("P"))


def swap(a: str, b: str) -> str:
    """Return the words of a that b has not, and those of b that a has not, by letters alone.

    >>> swap("The actress won.", "The actor won")
    'actress > actor'
    """
    one, other = (Counter(re.findall(r"[^\W_]+", text.lower())) for text in (a, b))
    return f"{' '.join((one - other).elements())} > {' '.join((other - one).elements())}"


def swaps(table: pd.DataFrame) -> list[str]:
    """Return a sentence on the classes whose pairs all change the same words: they tell of these words alone."""
    found = table.groupby("class", sort=False)["swap"].agg(["nunique", "first", "size"])
    alone = found[(found["nunique"] == 1) & (found["size"] > 1)]
    if not len(alone):
        return []
    names = ", ".join(f"{name} ({row['first']})" for name, row in alone.iterrows())
    return [
        f"Every pair of these classes changes the same words: {names}. p is over other sentences, not other words."
    ]


def warnings(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each way in which pairs differ that may pass for a direction."""
    told = {
        "punctuation_differs": "differ in punctuation, which moves vectors too (--matched leaves them out)",
        "words_differ": "differ in their number of words",
        "tokens_differ": "differ in their number of tokens",
        "same": "hold the same sentence twice: a difference of 0",
        "repeated": "are there more than once, which makes p smaller than it is",
    }
    found = []
    for mark, words in told.items():
        counts = table[table[mark]].groupby("class", sort=False).size()
        if len(counts):
            by_class = ", ".join(f"{name} {count}" for name, count in counts.items())
            found.append(f"{int(counts.sum())} of {len(table)} pairs {words}: {by_class}.")
    return [*found, *swaps(table)]
