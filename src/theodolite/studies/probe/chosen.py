"""The words chosen: those probed with their classes, those shown, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.sources.text.windows import encodable
from theodolite.studies.probe.selection import FEW, balanced, counts, of_several_classes, sorted_out
from theodolite.studies.probe.spelling import Spelled, spelled
from theodolite.studies.probe.word_list import Entry
from theodolite.surveys.listener import Listener


class Chosen(NamedTuple):
    """The words sorted out: the table of all, those that are probed with their classes, those that are shown."""

    table: pd.DataFrame
    probed: list[Spelled]
    labels: NDArray[np.int64]
    classes: list[str]
    shown: list[Spelled]


def choose_words(
    entries: Sequence[Entry], tokenizer: Any, show: Sequence[str], *, folds: int, most: int, seed: int
) -> Chosen:
    """Sort the entries out and balance their classes; without `show`, words of several classes are shown."""
    asked = list(dict.fromkeys(encodable(word).strip() for word in show if word.strip()))
    spellings = spelled([*(entry.word for entry in entries), *asked], tokenizer)
    asked = asked or of_several_classes(entries, spellings)
    table = balanced(sorted_out(entries, spellings, asked), folds=folds, most=most, seed=seed)
    kept = table[table["reason"] == ""]
    classes = sorted(kept["label"].unique())
    labels = np.array([classes.index(label) for label in kept["label"]], dtype=np.int64)
    probed = [spellings[word] for word in kept["word"]]
    return Chosen(table, probed, labels, classes, [spellings[word] for word in asked])


def spelled_out(table: pd.DataFrame, tokenizer: Any) -> pd.DataFrame:
    """Return the table of words with their tokens as the vocabulary spells them."""
    tokens = ["" if pd.isna(token) else tokenizer.convert_ids_to_tokens(int(token)) for token in table["token"]]
    return table.assign(spelling=tokens)


def tell(chosen: Chosen, listener: Listener) -> None:
    """Say which words are left out and why, and warn where few are left."""
    found = counts(chosen.table)
    lost = ", ".join(f"{count:,} {reason}" for reason, count in found["left_out"].items())
    listener.say(
        f"{found['probed']:,} of {found['given']:,} words, {found['words_a_class']} in each of {found['classes']} "
        f"classes{f'; left out: {lost}' if lost else ''}"
    )
    if found["words_a_class"] < FEW:
        sizes = chosen.table[chosen.table["reason"] == ""]["label"].value_counts()
        listener.warn(
            f"the smallest class has {found['words_a_class']} words ({', '.join(map(str, sizes.index))}: as many "
            "of each are used); a score of so few says little."
        )
    for word in (word for word in chosen.shown if word.token is None):
        listener.warn(f"--show {word.word}: {word.reason}, so it has no vector of its own.")
