"""Selecting the words to probe: one token, one class, not displayed, the same number in every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.sources.text.units import SPACE_MARKS, special_ids
from theodolite.sources.text.windows import repair_surrogates
from theodolite.studies.probe.words import Entry

SEVERAL_TOKENS = "several tokens"
UNKNOWN = "not in the vocabulary"
SPECIAL = "special token"
NO_TOKEN = "no token"
SEVERAL_CLASSES = "several classes"
DISPLAYED = "displayed"
REPEATED_TOKEN = "token already listed"
SURPLUS = "removed to balance the classes"
MIN_CLASS_SIZE = 20  # words per class, below which the user is warned
DEFAULT_SHOWN = 6  # words of several classes displayed by default


@dataclass(frozen=True, slots=True)
class WordToken:
    """A word, the text that the model reads for it, and its token, or the reason why it is not a single token."""

    word: str
    text: str
    token: int | None
    reason: str = ""


def tokenize_words(words: Sequence[str], tokenizer: Any) -> dict[str, WordToken]:
    """Return the token of every word by itself.

    If the vocabulary distinguishes words that follow a space (as GPT-2, Llama and RoBERTa do), each word is read
    after a space, as in running text.
    """
    before = " " if marks_spaces(tokenizer) else ""
    texts = [before + repair_surrogates(word) for word in dict.fromkeys(words)]
    if not texts:
        return {}
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    special, unknown = special_ids(tokenizer), tokenizer.unk_token_id
    return {
        word: _tokenize_word(word, text, found, special, unknown)
        for word, text, found in zip(dict.fromkeys(words), texts, ids, strict=True)
    }


def marks_spaces(tokenizer: Any) -> bool:
    """Return whether a word after a space is another token than the same word at the beginning of a text."""

    def marked(text: str) -> bool:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return bool(ids) and str(tokenizer.convert_ids_to_tokens(ids[:1])[0]).startswith(SPACE_MARKS)

    return marked(" a") and not marked("a")


def _tokenize_word(word: str, text: str, ids: Sequence[int], special: set[int], unknown: int | None) -> WordToken:
    if len(ids) != 1:
        return WordToken(word, text, None, SEVERAL_TOKENS if ids else NO_TOKEN)
    token = int(ids[0])
    if token in special:
        return WordToken(word, text, None, SPECIAL)
    if token == unknown:
        return WordToken(word, text, None, UNKNOWN)
    return WordToken(word, text, token)


def classify_entries(
    entries: Sequence[Entry], spellings: Mapping[str, WordToken], show: Sequence[str]
) -> pd.DataFrame:
    """Return one row per entry: word, label, token and the reason why it is not probed, "" if it is.

    Words are identified by their token, not by their letters: for an uncased model, Turkey and turkey are one word
    of two classes, and displaying one of them must exclude the other from training.
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
                reason = REPEATED_TOKEN
            taken.add(spelling.token)
        rows.append((word, label, spelling.token, reason))
    table = pd.DataFrame(rows, columns=["word", "label", "token", "reason"])
    return table.astype({"word": "str", "label": "str", "token": "Int64", "reason": "str"})


def find_ambiguous_words(entries: Sequence[Entry], spellings: Mapping[str, WordToken]) -> list[str]:
    """Return the first few words of a single token and several classes, which are displayed by default."""
    labels = _labels_by_token(entries, spellings)
    first: dict[int | None, str] = {}
    for word, _ in entries:
        first.setdefault(spellings[word].token, word)
    return [word for token, word in first.items() if token is not None and len(labels[token]) > 1][:DEFAULT_SHOWN]


def _labels_by_token(entries: Sequence[Entry], spellings: Mapping[str, WordToken]) -> dict[int, set[str]]:
    labels: dict[int, set[str]] = {}
    for word, label in entries:
        if (token := spellings[word].token) is not None:
            labels.setdefault(token, set()).add(label)
    return labels


def balance_classes(table: pd.DataFrame, *, folds: int, most: int, seed: int) -> pd.DataFrame:
    """Mark words drawn at random as surplus, so that every class keeps the same number of words."""
    probed = table[table["reason"] == ""]
    sizes = {label: int((probed["label"] == label).sum()) for label in sorted(table["label"].unique())}
    _check_class_sizes(sizes, table, folds)
    count = min([most, *sizes.values()])
    rng = np.random.default_rng(seed)
    reason = table["reason"].copy()
    for label in sizes:
        members = probed.index[probed["label"] == label].to_numpy()
        reason.loc[np.sort(rng.permutation(members)[count:])] = SURPLUS
    return table.assign(reason=reason)


def _check_class_sizes(sizes: Mapping[str, int], table: pd.DataFrame, folds: int) -> None:
    if len(sizes) < 2:
        raise InputError(f"--words requires two or more classes (got {len(sizes)}).")
    label = min(sizes, key=lambda name: sizes[name])
    if sizes[label] >= folds:
        return
    lost = table[(table["label"] == label) & (table["reason"] != "")]["reason"].value_counts()
    omitted = ", ".join(f"{reason}: {count}" for reason, count in lost.items())
    raise InputError(
        f"--words: --folds {folds} requires at least {folds} words per class; the class {label!r} has "
        f"{sizes[label]}{f' (omitted: {omitted})' if omitted else ''}. Add words, remove the class"
        + (f" or give --folds {sizes[label]}." if sizes[label] >= 2 else ".")
    )


def count_words(table: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers of words probed and of classes, and the numbers of words omitted by reason."""
    lost = table[table["reason"] != ""]["reason"].value_counts()
    probed = table[table["reason"] == ""]
    return {
        "given": len(table),
        "probed": len(probed),
        "classes": int(probed["label"].nunique()),
        "words_a_class": int(len(probed) // max(1, probed["label"].nunique())),
        "left_out": {str(reason): int(count) for reason, count in lost.items()},
    }


class WordSelection(NamedTuple):
    """The table of all words, the words to probe with their classes, and the words to display."""

    table: pd.DataFrame
    probed: list[WordToken]
    labels: NDArray[np.int64]
    classes: list[str]
    shown: list[WordToken]


def choose_words(
    entries: Sequence[Entry], tokenizer: Any, show: Sequence[str], *, folds: int, most: int, seed: int
) -> WordSelection:
    """Select the words to probe and balance the classes; by default, words of several classes are displayed."""
    asked = list(dict.fromkeys(repair_surrogates(word).strip() for word in show if word.strip()))
    spellings = tokenize_words([*(entry.word for entry in entries), *asked], tokenizer)
    asked = asked or find_ambiguous_words(entries, spellings)
    table = balance_classes(classify_entries(entries, spellings, asked), folds=folds, most=most, seed=seed)
    kept = table[table["reason"] == ""]
    classes = sorted(kept["label"].unique())
    labels = np.array([classes.index(label) for label in kept["label"]], dtype=np.int64)
    probed = [spellings[word] for word in kept["word"]]
    return WordSelection(table, probed, labels, classes, [spellings[word] for word in asked])


def add_spelling(table: pd.DataFrame, tokenizer: Any) -> pd.DataFrame:
    """Add the column `spelling`: the tokens as the vocabulary spells them."""
    tokens = ["" if pd.isna(token) else tokenizer.convert_ids_to_tokens(int(token)) for token in table["token"]]
    return table.assign(spelling=tokens)


def report_selection(chosen: WordSelection, listener: Listener) -> None:
    """Report the numbers of words probed and omitted, and warn if few words are left."""
    found = count_words(chosen.table)
    omitted = ", ".join(f"{reason}: {count:,}" for reason, count in found["left_out"].items())
    listener.say(
        f"{found['probed']:,} of {found['given']:,} words, {found['words_a_class']} in each of {found['classes']} "
        f"classes{f' (omitted: {omitted})' if omitted else ''}"
    )
    if found["words_a_class"] < MIN_CLASS_SIZE:
        sizes = chosen.table[chosen.table["reason"] == ""]["label"].value_counts()
        listener.warn(
            f"the smallest class has {found['words_a_class']} words, so only this number of each class is used "
            f"({', '.join(map(str, sizes.index))}); scores of so few words are unreliable."
        )
    for word in (word for word in chosen.shown if word.token is None):
        listener.warn(
            f"--show {word.word}: not a single token of this model ({word.reason}), so it has no vector."
        )
