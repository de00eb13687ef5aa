"""Do searches in two stores find the same documents? Rows are matched by id: the vectors may be of two models."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.hashing import mix
from theodolite.stores.answer import Answer
from theodolite.stores.cost import find_usable
from theodolite.stores.document_sample import Keys, name_rows
from theodolite.stores.reader import Reader
from theodolite.stores.recall import Interval, churn_at, mean_interval, recall_at
from theodolite.stores.search import search
from theodolite.text import format_percent, pluralize

PLACES, QUERIES = 10, 1000
SAME = 0.95
"""Overlap from which the results are called the same, with its whole interval."""
QUESTION = "Do searches find the same documents?"


class Matched(NamedTuple):
    """The answer, one row per query (the most changed first) and facts."""

    answer: Answer
    table: pd.DataFrame
    facts: dict[str, Any]


def compare_results(a: Reader, b: Reader, *, metric: str, queries: int = QUERIES, device: str = "cpu") -> Matched:
    """Search rows of both stores for their 10 nearest others, in each store with its own vector; compare the ids.

    The queries are chosen by the hash of their ids among the ids that occur once, with a usable vector, in each
    store. A document that only one store holds cannot be found in the other, which counts as a difference. Reads
    each store three times; 16 bytes a row.
    """
    keys, usable = zip(*(_read_keys(each, metric) for each in (a, b)), strict=True)
    single = [_find_single(*pair) for pair in zip(keys, usable, strict=True)]
    common = np.intersect1d(*(key[at] for key, at in zip(keys, single, strict=True)))
    least = min(int(each.sum()) for each in usable)
    if len(common) < 2 or least <= PLACES:
        reason = f"{pluralize(len(common), 'id')} in both stores, and {least:,} usable vectors in the smaller one"
        need = f"It requires two ids in both stores and more than {PLACES} usable vectors in each."
        return Matched(Answer(QUESTION, "unknown", need, reason=reason), pd.DataFrame(), {"reason": reason})
    chosen = common[np.argsort(mix(common), kind="stable")[:queries]]
    rows = [at[_locate(key[at], chosen)] for key, at in zip(keys, single, strict=True)]
    hits = [
        search(each, _read_vectors(each, at), PLACES, metric, exclude=at, device=device).rows
        for each, at in zip((a, b), rows, strict=True)
    ]
    _, codes = np.unique(np.stack([key[hit] for key, hit in zip(keys, hits, strict=True)]), return_inverse=True)
    first, second = np.where(np.stack(hits) >= 0, codes.reshape(2, *hits[0].shape), -1)
    overlap, churn = recall_at(first, second, PLACES), churn_at(first, second, PLACES)
    table = pd.DataFrame({"row": rows[1], "overlap_10": overlap, "churn_10": churn})
    table = table.sort_values(["overlap_10", "churn_10", "row"], ascending=[True, False, True], ignore_index=True)
    means = {"overlap_10": mean_interval(overlap), "churn_10": mean_interval(churn)}
    facts = {name: list(value) for name, value in means.items()}
    return Matched(_answer(means, len(chosen), len(common)), table, facts | {"ids_in_both": len(common)})


def _read_keys(reader: Reader, metric: str) -> tuple[Keys, NDArray[np.bool_]]:
    """Return the hash of the id of every row, and whether its vector can be searched for."""
    keys, usable = [np.empty(0, np.uint64)], [np.empty(0, bool)]
    for block in reader.blocks():
        keys.append(name_rows(reader, block, None)[1])
        usable.append(find_usable(block.vectors, metric))
    return np.concatenate(keys), np.concatenate(usable)


def _find_single(keys: Keys, usable: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the usable rows whose id occurs once."""
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    rows = first[counts == 1]
    return np.asarray(rows[usable[rows]])


def _locate(keys: Keys, wanted: Keys) -> NDArray[np.int64]:
    """Return where each wanted key is among `keys`, which has all of them once."""
    order = np.argsort(keys)
    return np.asarray(order[np.searchsorted(keys, wanted, sorter=order)])


def _read_vectors(reader: Reader, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of some rows, in the order of `rows`."""
    made = np.empty((len(rows), reader.dim), np.float32)
    order = np.argsort(rows)
    ordered = rows[order]
    for block in reader.blocks():
        low, high = np.searchsorted(ordered, [block.start, block.start + len(block)])
        made[order[low:high]] = block.vectors[ordered[low:high] - block.start]
    return made


def _answer(means: dict[str, Interval], queries: int, common: int) -> Answer:
    overlap, churn = means["overlap_10"], means["churn_10"]
    same = overlap.low >= SAME
    return Answer(
        QUESTION,
        "good" if same else "attention",
        f"{format_percent(overlap.value)} of the {PLACES} nearest documents are the same in both stores; "
        f"{format_percent(churn.value)} of the places hold another document.",
        *overlap,
        reason=f"{queries:,} of {pluralize(common, 'document')} in both stores, chosen by hash, each searched "
        f"in both; documents that only one store holds count as differences; good from {SAME:.0%}, with the whole "
        "interval",
        advice=""
        if same
        else "See search_changes for the documents whose results changed most. It does not say which store is "
        "better: that requires relevance judgements.",
    )
