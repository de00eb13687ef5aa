"""The vocabulary of a model: what each token is, and the composition and overlap of vocabularies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from theodolite.sources.text.units import SPACE_MARKS, continuation_mark, list_vocabulary

UNUSED = re.compile(
    r"[\[<]\|?(unused|reserved|extra_id|dummy|madeupword)[\w ]*\|?[\]>]|<unused id \d+>|madeupword\d+"
)
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A byte token of vocabularies with byte fallback."""
LATIN = re.compile(r"[A-Za-z]+")
KINDS = (
    "special",
    "unused",
    "byte or fragment",
    "character, start",
    "character, continuation",
    "character, token",
    "start",
    "continuation",
    "token",
)
EXAMPLES = 6


def token_units(tokenizer: Any, rows: int) -> pd.DataFrame:
    """Return one row per row of the word table: id, unit, text, name, special, unused, begins, bare, kind.

    `begins`: the token can begin a word, that is, it lacks the continuation mark (##) or has the space mark, if
    the vocabulary has such marks. `bare` is the text without marks; `name` shows spaces as ␣.
    """
    if tokenizer is None:
        names = [f"id {number}" for number in range(rows)]
        return _frame(names, names, set(), set(), [None] * rows, names)
    listed, _ = list_vocabulary(tokenizer, "id")
    known = listed.known[:rows]
    spelled = [unit.key for unit in known] + [f"<unused id {number}>" for number in range(len(known), rows)]
    texts = [unit.text for unit in known] + spelled[len(known) :]
    special = {number for number in special_rows(tokenizer) if number < rows}
    unused = {number for number, token in enumerate(spelled) if UNUSED.fullmatch(token)}
    begins, bare = _marks(tokenizer, spelled, texts)
    return _frame(spelled, texts, special - unused, unused, begins, bare)


def special_rows(tokenizer: Any) -> set[int]:
    """Return the ids of all special tokens, including the unknown token."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return set(tokenizer.all_special_ids) | {number for number, token in added.items() if token.special}


def _marks(tokenizer: Any, spelled: list[str], texts: list[str]) -> tuple[list[bool | None], list[str]]:
    """Return for every token whether it can begin a word (None without marks), and its text without the mark."""
    continuation = continuation_mark(tokenizer)
    if continuation:
        begins: list[bool | None] = [not token.startswith(continuation) for token in spelled]
        return begins, [token.removeprefix(continuation) for token in texts]
    mark = next((mark for mark in SPACE_MARKS if any(token.startswith(mark) for token in spelled)), None)
    if mark is None:
        return [None] * len(spelled), texts
    return [token.startswith(mark) for token in spelled], [token.removeprefix(" ") for token in texts]


def _frame(
    spelled: list[str],
    texts: list[str],
    special: set[int],
    unused: set[int],
    begins: list[bool | None],
    bare: list[str],
) -> pd.DataFrame:
    ids = range(len(spelled))
    frame = pd.DataFrame({"id": list(ids), "unit": spelled, "text": texts})
    frame["name"] = [text.replace(" ", "␣").replace("\n", "\\n").replace("\t", "\\t") for text in texts]
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
    return f"character, {which}" if len(bare) <= 1 else which  # a single space mark counts as a character


def is_word(text: str) -> bool:
    """Return whether a token consists of at least three Latin letters, as in table 3 of the thesis.

    >>> is_word("facilitate"), is_word("ab"), is_word("197"), is_word("##nect"), is_word("naïve")
    (True, False, False, False, False)
    """
    return len(text) >= 3 and LATIN.fullmatch(text) is not None


def vocabulary_table(units: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return one row per kind of token: count, share, first and last id, longest run of ids, examples."""
    rows = []
    for kind in KINDS:
        ids = units.loc[units["kind"] == kind, "id"].to_numpy()
        if len(ids):
            rows.append({"model": model, "kind": kind, **_row(ids, len(units)), "examples": _examples(units, ids)})
    head = ["model", "kind", "tokens", "share", "first", "last", "run_first", "run_last", "examples"]
    return pd.DataFrame(rows, columns=head)


def summarise_vocabulary(units: pd.DataFrame) -> dict[str, Any]:
    """Return the counts of the thesis: tokens, tokens marked as continuations, alphanumeric tokens.

    `as_spelled` counts as the thesis does: a token with the mark ## is not alphanumeric.
    """
    total = len(units)
    begins = units["begins"]
    marked = None if begins.isna().all() else int((~begins.fillna(True)).sum())
    alphanumeric, spelled = (sum(map(str.isalnum, units[column])) for column in ("bare", "unit"))
    return {
        "tokens": total,
        "continuations": marked,
        "continuations_share": None if marked is None or not total else marked / total,
        "alphanumeric": alphanumeric,
        "alphanumeric_share": alphanumeric / total if total else None,
        "alphanumeric_as_spelled": spelled,
        "alphanumeric_as_spelled_share": spelled / total if total else None,
    }


def vocabulary_overlap(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the overlap of two vocabularies: all tokens, starts, continuations; as they are, and in lower case.

    Tokens are compared by their text without marks and by whether they begin a word, so `ing` after `##` equals
    `ing` without a space mark. Special, unused and byte tokens are omitted.
    """
    rows = []
    for group in ("all", "starts", "continuations"):
        for lower in (False, True):
            left, right = (_keys(units, group, lower=lower) for units in (one, other))
            both = left & right
            rows.append(
                {
                    "of": group,
                    "case": "lower" if lower else "as read",
                    "one": len(left),
                    "other": len(right),
                    "both": len(both),
                    "share_of_one": _share(both, left),
                    "share_of_other": _share(both, right),
                    "jaccard": _share(both, left | right),
                    "only_one": _sample_tokens(left - right),
                    "only_other": _sample_tokens(right - left),
                }
            )
    return pd.DataFrame(rows)


def _row(ids: np.ndarray[Any, Any], total: int) -> dict[str, Any]:
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1)
    longest = max(runs, key=len)  # the first one if several are equal
    return {
        "tokens": len(ids),
        "share": len(ids) / total,
        "first": int(ids[0]),
        "last": int(ids[-1]),
        "run_first": int(longest[0]),
        "run_last": int(longest[-1]),
    }


def _examples(units: pd.DataFrame, ids: np.ndarray[Any, Any]) -> str:
    """Return a few tokens of the kind, evenly spaced by id."""
    at = np.unique(np.linspace(0, len(ids) - 1, EXAMPLES).round().astype(int))
    return " ".join(units["name"].to_numpy()[ids[at]])


def _keys(units: pd.DataFrame, group: str, *, lower: bool) -> set[tuple[bool, str]]:
    kept = units[~units["kind"].isin(["special", "unused", "byte or fragment"])]
    begins = kept["begins"].fillna(True).to_numpy(bool)
    texts = kept["bare"].str.lower() if lower else kept["bare"]
    keys = set(zip(begins.tolist(), texts, strict=True))
    return keys if group == "all" else {key for key in keys if key[0] is (group == "starts")}


def _share(part: set[Any], total: set[Any]) -> float:
    return len(part) / len(total) if total else float("nan")


def _sample_tokens(keys: set[tuple[bool, str]]) -> str:
    """Return a few of the tokens, evenly spaced in alphabetical order."""
    ordered = sorted(text for _, text in keys)
    if not ordered:
        return ""
    at = np.unique(np.linspace(0, len(ordered) - 1, EXAMPLES).round().astype(int))
    return " ".join(ordered[number] for number in at)
