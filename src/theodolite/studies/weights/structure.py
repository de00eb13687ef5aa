"""The structure of a vocabulary, and of two side by side: what its tokens are, by how they are spelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

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


def structure(units: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return a row per kind of token: how many, what share, where they stand, the longest run of ids, examples."""
    rows = []
    for kind in KINDS:
        ids = units.loc[units["kind"] == kind, "id"].to_numpy()
        if len(ids):
            rows.append({"model": model, "kind": kind, **_row(ids, len(units)), "examples": _examples(units, ids)})
    head = ["model", "kind", "tokens", "share", "first", "last", "run_first", "run_last", "examples"]
    return pd.DataFrame(rows, columns=head)


def summary(units: pd.DataFrame) -> dict[str, Any]:
    """Return counts of what the thesis tells: tokens, those marked as continuations, the alphanumeric ones.

    As spelled, a token with the mark ## is not alphanumeric: so the thesis counts.
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


def overlap(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return how far two vocabularies share their tokens: all, starts, continuations; as read, and in lower case.

    Tokens are compared by what they read without marks and by whether they begin a word, so `ing` after `##` is
    the same as `ing` without a space mark. Special, unused and byte tokens are left out.
    """
    rows = []
    for of in ("all", "starts", "continuations"):
        for lower in (False, True):
            left, right = (_keys(units, of, lower=lower) for units in (one, other))
            both = left & right
            rows.append(
                {
                    "of": of,
                    "case": "lower" if lower else "as read",
                    "one": len(left),
                    "other": len(right),
                    "both": len(both),
                    "share_of_one": _share(both, left),
                    "share_of_other": _share(both, right),
                    "jaccard": _share(both, left | right),
                    "only_one": _shown(left - right),
                    "only_other": _shown(right - left),
                }
            )
    return pd.DataFrame(rows)


def _row(ids: np.ndarray[Any, Any], total: int) -> dict[str, Any]:
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1)
    longest = max(runs, key=len)  # the first of equal ones
    return {
        "tokens": len(ids),
        "share": len(ids) / total,
        "first": int(ids[0]),
        "last": int(ids[-1]),
        "run_first": int(longest[0]),
        "run_last": int(longest[-1]),
    }


def _examples(units: pd.DataFrame, ids: np.ndarray[Any, Any]) -> str:
    """Return a few tokens of the kind, evenly from the first to the last."""
    at = np.unique(np.linspace(0, len(ids) - 1, EXAMPLES).round().astype(int))
    return " ".join(units["name"].to_numpy()[ids[at]])


def _keys(units: pd.DataFrame, of: str, *, lower: bool) -> set[tuple[bool, str]]:
    kept = units[~units["kind"].isin(["special", "unused", "byte or fragment"])]
    begins = kept["begins"].fillna(True).to_numpy(bool)
    texts = kept["bare"].str.lower() if lower else kept["bare"]
    keys = set(zip(begins.tolist(), texts, strict=True))
    return keys if of == "all" else {key for key in keys if key[0] is (of == "starts")}


def _share(part: set[Any], whole: set[Any]) -> float:
    return len(part) / len(whole) if whole else float("nan")


def _shown(keys: set[tuple[bool, str]]) -> str:
    """Return a few of the tokens, evenly by spelling: the same ones every time."""
    ordered = sorted(text for _, text in keys)
    if not ordered:
        return ""
    at = np.unique(np.linspace(0, len(ordered) - 1, EXAMPLES).round().astype(int))
    return " ".join(ordered[number] for number in at)
