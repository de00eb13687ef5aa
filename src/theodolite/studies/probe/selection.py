"""Which words are probed: one token, one class, not displayed, as many of each class as of every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.studies.probe.spelling import Spelled
from theodolite.studies.probe.word_list import Entry

SEVERAL_CLASSES = "of several classes"
DISPLAYED = "displayed"
REPEATED = "the same token again"
LEFT_OVER = "to balance the classes"
FEW = 20  # words of a class below which the user is warned
SHOWN = 6  # words of several classes displayed where none was named


def sorted_out(entries: Sequence[Entry], spellings: Mapping[str, Spelled], show: Sequence[str]) -> pd.DataFrame:
    """Return a row for every entry: word, label, token and why it is not probed, "" where it is.

    Words are told apart by their token, not by their letters: to an uncased model Turkey and turkey are one word,
    of two classes, and displaying the one must hold out the other.
    """
    labels = _labels_by_token(entries, spellings)
    displayed = {spellings[word].token for word in show}
    taken: set[int] = set()
    rows = []
    for word, label in entries:
        spelling = spellings[word]
        reason = spelling.reason
        if spelling.token is not None:
            if len(labels[spelling.token]) > 1:
                reason = SEVERAL_CLASSES
            elif spelling.token in displayed:
                reason = DISPLAYED
            elif spelling.token in taken:
                reason = REPEATED
            taken.add(spelling.token)
        rows.append((word, label, spelling.token, reason))
    table = pd.DataFrame(rows, columns=["word", "label", "token", "reason"])
    return table.astype({"word": "str", "label": "str", "token": "Int64", "reason": "str"})


def of_several_classes(entries: Sequence[Entry], spellings: Mapping[str, Spelled]) -> list[str]:
    """Return the first few words of one token and several classes: what one would like to see displayed."""
    labels = _labels_by_token(entries, spellings)
    first: dict[int | None, str] = {}
    for word, _ in entries:
        first.setdefault(spellings[word].token, word)
    return [word for token, word in first.items() if token is not None and len(labels[token]) > 1][:SHOWN]


def _labels_by_token(entries: Sequence[Entry], spellings: Mapping[str, Spelled]) -> dict[int, set[str]]:
    labels: dict[int, set[str]] = {}
    for word, label in entries:
        if (token := spellings[word].token) is not None:
            labels.setdefault(token, set()).add(label)
    return labels


def balanced(table: pd.DataFrame, *, folds: int, most: int, seed: int) -> pd.DataFrame:
    """Return the table with all but the same number of words of every class left over, drawn by seed."""
    probed = table[table["reason"] == ""]
    sizes = {label: int((probed["label"] == label).sum()) for label in sorted(table["label"].unique())}
    _check(sizes, table, folds)
    count = min([most, *sizes.values()])
    rng = np.random.default_rng(seed)
    reason = table["reason"].copy()
    for label in sizes:
        members = probed.index[probed["label"] == label].to_numpy()
        reason.loc[np.sort(rng.permutation(members)[count:])] = LEFT_OVER
    return table.assign(reason=reason)


def _check(sizes: Mapping[str, int], table: pd.DataFrame, folds: int) -> None:
    if len(sizes) < 2:
        raise InputError(f"--words has {len(sizes)} class; a probe needs two or more.")
    label = min(sizes, key=lambda name: sizes[name])
    if sizes[label] >= folds:
        return
    lost = table[(table["label"] == label) & (table["reason"] != "")]["reason"].value_counts()
    why = ", ".join(f"{count} {reason}" for reason, count in lost.items())
    raise InputError(
        f"--words: the class {label!r} has {sizes[label]} of the {folds} words that --folds {folds} needs, one "
        f"for every fold{f' (left out: {why})' if why else ''}. Add words, leave the class out"
        + (f" or give --folds {sizes[label]}." if sizes[label] >= 2 else ".")
    )


def counts(table: pd.DataFrame) -> dict[str, Any]:
    """Return how many words are probed, of how many classes, and how many are not, by reason."""
    lost = table[table["reason"] != ""]["reason"].value_counts()
    probed = table[table["reason"] == ""]
    return {
        "given": len(table),
        "probed": len(probed),
        "classes": int(probed["label"].nunique()),
        "words_a_class": int(len(probed) // max(1, probed["label"].nunique())),
        "left_out": {str(reason): int(count) for reason, count in lost.items()},
    }
