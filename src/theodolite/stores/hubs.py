"""Hubs: documents that are among the ten nearest of many queries, and antihubs, which are among those of none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.laboratories.clouds import wilson_interval
from theodolite.stores.answer import Answer, Section, Verdict
from theodolite.text import format_number, format_percent

K = 10
LISTED = 100
TOP = 0.01
"""Share of the documents that are called the most frequent ones."""
SOME, MANY = 0.1, 0.3
"""Share of all places in result lists, taken by the most frequent 1%, from which hubs are a concern, or bad."""


@dataclass(frozen=True, eq=False)
class Lists:
    """The result lists of queries.

    rows    (queries, K) row numbers of the nearest documents, -1 where there are fewer
    usable  (documents,) whether a row can be found at all
    of      what the queries are: "queries", or "documents" that search for each other
    census  whether every document was a query
    """

    rows: NDArray[np.int64]
    usable: NDArray[np.bool_]
    of: str
    census: bool


def describe_hubs(lists: Lists) -> Section:
    """Return the section "hubs" of a store's results."""
    count, queries = int(lists.usable.sum()), len(lists.rows)
    if queries < 2 or count <= K + 1:
        few = f"It requires two queries and more than {K + 1} usable vectors."
        return Section("hubs", [Answer("Do a few documents crowd the results?", "unknown", few)])
    occurrences = count_occurrences(lists.rows, len(lists.usable))
    share, low, high = crowding(lists.rows, count)
    table = _hub_table(occurrences, queries, count)
    never = np.flatnonzero((occurrences == 0) & lists.usable)
    tables = {"hubs": table}
    if lists.census or len(never) <= LISTED:
        tables["antihubs"] = pd.DataFrame({"row": never})
    expected = float((1 - K / count) ** queries)
    facts = {
        "k": K,
        "queries": queries,
        "queries_are": lists.of,
        "skewness": _skewness(occurrences[lists.usable]),
        "share_of_top_1_percent": share,
        "never_found": len(never) / count,
        "never_found_if_even": expected,
    }
    return Section(
        "hubs",
        [_crowded(share, low, high, table, lists), _unreached(never, count, expected, lists)],
        tables,
        facts,
    )


def count_occurrences(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return in how many lists each document is: (count,).

    >>> count_occurrences(np.array([[1, 2], [1, -1]]), 3).tolist()
    [0, 2, 1]
    """
    return np.bincount(rows[rows >= 0], minlength=count).astype(np.int64)


def crowding(rows: NDArray[np.int64], count: int) -> tuple[float, float, float]:
    """Return the share of places in lists taken by the most frequent 1% of `count` documents, with a 95% interval.

    The most frequent are chosen by one half of the queries and counted in the lists of the other half, and the
    reverse: counted in the same lists, chance alone would make documents frequent. Without hubs the share is 1%.
    """
    size, top = int(rows.max()) + 1, max(1, round(TOP * count))
    halves = [rows[0::2], rows[1::2]]
    shares = np.empty(len(rows))
    for number, (chosen_by, counted_in) in enumerate((halves[::-1], halves)):
        counts = count_occurrences(chosen_by, size)
        frequent = np.zeros(size, bool)
        frequent[np.argsort(-counts, kind="stable")[:top]] = True
        taken = np.where(counted_in >= 0, frequent[counted_in], False)
        shares[number::2] = taken.sum(axis=1) / np.maximum(1, (counted_in >= 0).sum(axis=1))
    error = 1.96 * shares.std(ddof=1) / np.sqrt(len(shares))
    mean = float(shares.mean())
    return mean, max(0.0, mean - float(error)), min(1.0, mean + float(error))


def _hub_table(occurrences: NDArray[np.int64], queries: int, count: int) -> pd.DataFrame:
    rows = np.argsort(-occurrences, kind="stable")[:LISTED]
    rows = rows[occurrences[rows] > 1]
    intervals = [wilson_interval(occurrences[row] / queries, queries) for row in rows]
    return pd.DataFrame(
        {
            "row": rows,
            "lists": occurrences[rows],
            "share": occurrences[rows] / queries,
            "low": [low for low, _ in intervals],
            "high": [high for _, high in intervals],
            "times_even": occurrences[rows] / queries * count / K,
        }
    )


def _skewness(occurrences: NDArray[np.int64]) -> float | None:
    spread = occurrences.std()
    return float(((occurrences - occurrences.mean()) ** 3).mean() / spread**3) if spread > 0 else None


def _crowded(share: float, low: float, high: float, table: pd.DataFrame, lists: Lists) -> Answer:
    verdict: Verdict = "bad" if share >= MANY else "attention" if share >= SOME else "good"
    first = ""
    if len(table):
        top = table.iloc[0]
        first = (
            f"; the first is in {format_percent(top['share'], 2)} of the lists, "
            f"{format_number(top['times_even'], 2)} "
            "times its even share"
        )
    return Answer(
        "Do a few documents crowd the results?",
        verdict,
        f"The most frequent 1% of the documents take {format_percent(share, 2)} of all places in top-{K} "
        f"lists{first}.",
        share,
        low,
        high,
        reason=f"{len(lists.rows):,} {lists.of} searched exactly; the 1% are chosen by one half and counted "
        "in the lists of the other half" + ("" if lists.census else ", a lower limit if queries are few"),
        advice=""
        if verdict == "good"
        else "Look at the texts of the hubs: short or generic ones can be removed. Subtracting the mean "
        "often helps.",
    )


def _unreached(never: NDArray[np.int64], count: int, expected: float, lists: Lists) -> Answer:
    question, share = "Are there documents that no search finds?", len(never) / count
    if not lists.census:
        return Answer(
            question,
            "unknown",
            f"{format_percent(share)} of the documents are in no list; if all were found equally often, it "
            "would be "
            f"{format_percent(expected)}.",
            share,
            reason=f"{len(lists.rows):,} {lists.of} are too few to reach {count:,} documents",
        )
    verdict: Verdict = "attention" if share > 0.2 else "good"
    return Answer(
        question,
        verdict,
        f"{len(never):,} of {count:,} documents ({format_percent(share)}) are in no other document's top {K}.",
        share,
        reason="every document searched for the others, exactly",
        advice="Such documents are found by very specific queries only. See antihubs." if len(never) else "",
    )
