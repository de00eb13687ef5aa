"""The rows of a word table by name: what each token is, by how it is spelled."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from theodolite.sources.text.vocabulary import SPACE_MARKS, continuation_mark, vocabulary

UNUSED = re.compile(
    r"[\[<]\|?(unused|reserved|extra_id|dummy|madeupword)[\w ]*\|?[\]>]|<unused id \d+>|madeupword\d+"
)
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A byte that stands for itself in vocabularies that fall back on bytes."""
LATIN = re.compile(r"[A-Za-z]+")


def units_of(tokenizer: Any, rows: int) -> pd.DataFrame:
    """Return a row per row of the table: id, unit, text, name, special, unused, begins, bare, kind.

    `begins`: the token can begin a word: it lacks the mark of a continuation (##), or bears that of a space, where
    the vocabulary has such marks. `bare` is the text without marks; `name` shows spaces as ␣.
    """
    if tokenizer is None:
        names = [f"id {number}" for number in range(rows)]
        return _frame(names, names, set(), set(), [None] * rows, names)
    found, _ = vocabulary(tokenizer, "id")
    known = found.known[:rows]
    spelled = [unit.key for unit in known] + [f"<unused id {number}>" for number in range(len(known), rows)]
    read = [unit.text for unit in known] + spelled[len(known) :]
    special = {number for number in special_rows(tokenizer) if number < rows}
    unused = {number for number, token in enumerate(spelled) if UNUSED.fullmatch(token)}
    begins, bare = _marks(tokenizer, spelled, read)
    return _frame(spelled, read, special - unused, unused, begins, bare)


def special_rows(tokenizer: Any) -> set[int]:
    """Return the ids of all special tokens, the unknown one too: none of them stands for a text of its own."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return set(tokenizer.all_special_ids) | {number for number, token in added.items() if token.special}


def _marks(tokenizer: Any, spelled: list[str], read: list[str]) -> tuple[list[bool | None], list[str]]:
    """Return for every token whether it can begin a word, nothing where no mark tells, and the text without it."""
    continuation = continuation_mark(tokenizer)
    if continuation:
        begins: list[bool | None] = [not token.startswith(continuation) for token in spelled]
        return begins, [token.removeprefix(continuation) for token in read]
    mark = next((mark for mark in SPACE_MARKS if any(token.startswith(mark) for token in spelled)), None)
    if mark is None:
        return [None] * len(spelled), read
    return [token.startswith(mark) for token in spelled], [token.removeprefix(" ") for token in read]


def _frame(
    spelled: list[str],
    read: list[str],
    special: set[int],
    unused: set[int],
    begins: list[bool | None],
    bare: list[str],
) -> pd.DataFrame:
    ids = range(len(spelled))
    frame = pd.DataFrame({"id": list(ids), "unit": spelled, "text": read})
    frame["name"] = [text.replace(" ", "␣").replace("\n", "\\n").replace("\t", "\\t") for text in read]
    frame["special"] = [number in special for number in ids]
    frame["unused"] = [number in unused for number in ids]
    frame["begins"] = pd.array(begins, dtype="boolean")
    frame["bare"] = bare
    frame["kind"] = [
        _kind(number in special, number in unused, begin, word)
        for number, begin, word in zip(ids, begins, bare, strict=True)
    ]
    return frame


def _kind(special: bool, unused: bool, begins: bool | None, bare: str) -> str:
    if special or unused:
        return "special" if special else "unused"
    if BYTE.fullmatch(bare) or "\\x" in bare:
        return "byte or fragment"
    which = "token" if begins is None else "start" if begins else "continuation"
    return f"character, {which}" if len(bare) <= 1 else which  # a space mark alone is one


def is_word(text: str) -> bool:
    """Say whether a token is of at least three Latin letters and nothing else, as the thesis' table 3 asks.

    >>> is_word("facilitate"), is_word("ab"), is_word("197"), is_word("##nect"), is_word("naïve")
    (True, False, False, False, False)
    """
    return len(text) >= 3 and LATIN.fullmatch(text) is not None
