"""The second pass over a store: the nearest documents of queries, and near duplicates among all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.engines.progress import Listener, Progress
from theodolite.errors import TheodoliteError
from theodolite.measures.laboratories.clouds import wilson_interval
from theodolite.stores import scan as scanning
from theodolite.stores.answer import Answer, Section, Verdict
from theodolite.stores.duplicates import find_duplicates
from theodolite.stores.hubs import K
from theodolite.stores.near_duplicates import Signatures, measure_pairs
from theodolite.stores.reader import Reader
from theodolite.stores.scan import Scan
from theodolite.stores.search import Hits, Search
from theodolite.text import format_fixed, format_percent, pluralize

MANY_NEAR = 0.1
"""Share of rows with a near duplicate from which they are called bad."""
SOME_ISOLATED = 0.05


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What the second pass found.

    documents   hits of the sampled documents, without themselves, and their row numbers
    queries     hits of the queries, None without queries
    signatures  of all rows
    """

    rows: NDArray[np.int64]
    documents: Hits
    queries: Hits | None
    signatures: Signatures


def find_neighbours(
    reader: Reader,
    scan: Scan,
    *,
    metric: str,
    count: int,
    queries: Tensor | None = None,
    device: str = "cpu",
    state: Mapping[str, Tensor] | None = None,
    save: Callable[[dict[str, Tensor]], None] | None = None,
    listener: Listener | None = None,
) -> Neighbours:
    """Search `count` documents of the scan's sample, and all `queries`, among all rows of the store.

    `save` is called about every minute with a state that `state` continues from.
    """
    listener = listener or Listener()
    sample = scan.sample.sorted()
    vectors, rows = sample["vector"][:count], sample["row"][:count].numpy()
    asked = vectors if queries is None else torch.cat([vectors, queries.float()])
    exclude = np.concatenate([rows, np.full(len(asked) - len(rows), -1)])
    search = Search(asked, min(K, max(1, scan.count - 1)), metric, exclude=exclude, device=device)
    signatures, start = Signatures(scan.units / max(1, scan.count)), 0
    if state:
        search.load({name: state[name] for name in ("scores", "rows")})
        signatures.load(state)
        start = int(state["next_row"])
    started = saved = time.monotonic()
    done = start
    for block in reader.blocks(start):
        search.update(block)
        signatures.update(block)
        done = block.start + len(block)
        now = time.monotonic()
        listener.progress(Progress(done / scan.rows, done - start, now - started, start / scan.rows, "rows"))
        stop = listener.stop()
        if save is not None and (stop or now - saved > scanning.CHECKPOINT_SECONDS):
            save({**search.state(), **signatures.state(), "next_row": torch.tensor(done)})
            saved = time.monotonic()
        if stop:
            raise TheodoliteError(
                f"Stopped while searching, after {done:,} rows." + (" Continue with --resume." if save else "")
            )
    if done != scan.rows:
        raise TheodoliteError(
            f"{reader.name} has changed while it was read: it had {scan.rows:,} rows, then {done:,}. "
            "Measure a copy, "
            "or measure again when nothing writes to it."
        )
    if save is not None:
        save({**search.state(), **signatures.state(), "next_row": torch.tensor(done)})
    hits = search.result()
    cut = len(rows)
    of_queries = None if queries is None else Hits(hits.scores[cut:], hits.rows[cut:])
    return Neighbours(rows, Hits(hits.scores[:cut], hits.rows[:cut]), of_queries, signatures)


def describe_near_duplicates(
    reader: Reader, scan: Scan, found: Neighbours, *, metric: str, bound: float, mean_cosine: float
) -> Section:
    """Return the section "near duplicates": which rows have one, and the share of rows with one.

    The share comes from the sampled documents, whose neighbours are exact. The list is over all rows.
    """
    question = "Are there near duplicates?"
    if scan.count < 2:
        return Section("near_duplicates", [Answer(question, "unknown", "It requires two usable vectors.")])
    first = np.zeros(scan.rows, bool)  # one row of each group of exact copies
    first[scan.hashed_rows] = True
    copies = find_duplicates(scan.hashes, scan.hashed_rows)
    first[copies["row"]] = False
    pairs = found.signatures.candidates(bound, mean_cosine, first)
    table = measure_pairs(reader, pairs, bound)
    listed = np.union1d(table["row"], table["nearest"])
    facts: dict[str, Any] = {
        "bound": bound,
        "pairs": len(table),
        "rows": len(listed),
        "list_is_complete": found.signatures.is_complete,
    }
    share = len(listed) / int(first.sum())
    low = high = None
    reason = f"cosine of at least {bound:g} to a row that is not an exact copy; all rows compared by 512 bits each"
    if metric == "cosine":
        original = np.arange(scan.rows)
        original[copies["row"]] = copies["copy_of"]
        near = has_near_duplicate(found, original, bound)
        known = first[found.rows]
        truly = found.rows[known & near]
        share = max(share, float(near[known].mean())) if known.any() else share  # the listed ones are certain
        facts["recall"] = float(np.isin(truly, listed).mean()) if len(truly) else None
        facts["recall_of"] = len(truly)
        if len(found.rows) < scan.count:
            low, high = wilson_interval(float(near[known].mean()), int(known.sum()))
            low, high = max(low, len(listed) / first.sum()), max(high, share)
            reason = f"neighbours of {int(known.sum()):,} sampled rows, exactly; " + reason
        if len(truly):
            reason += f", which found {format_percent(facts['recall'])} of {len(truly):,} known rows"
    answer = _near(share, low, high, facts, bound, reason)
    return Section("near_duplicates", [answer], {"near_duplicates": table}, facts)


def has_near_duplicate(found: Neighbours, original: NDArray[np.int64], bound: float) -> NDArray[np.bool_]:
    """Return whether each sampled document has a neighbour within the bound that is not its exact copy.

    original: (rows,) the first row that equals each row
    """
    neighbours = np.where(found.documents.rows >= 0, found.documents.rows, found.rows[:, None])
    different = original[neighbours] != original[found.rows][:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray((different & (found.documents.scores >= bound)).any(axis=1))


def _near(
    share: float,
    low: float | None,
    high: float | None,
    facts: dict[str, Any],
    bound: float,
    reason: str,
) -> Answer:
    question, rows, pairs = "Are there near duplicates?", facts["rows"], facts["pairs"]
    if not pairs and not share > 0:
        sentence = f"None were found: no two different vectors have a cosine of {bound:g} or more."
        return Answer(question, "good", sentence, share, low, high, reason=reason)
    verdict: Verdict = "bad" if share >= MANY_NEAR else "attention"
    more = "" if facts["list_is_complete"] else " at least"
    return Answer(
        question,
        verdict,
        f"{format_percent(share)} of the vectors have a near duplicate;{more} {rows:,} rows in "
        f"{pluralize(pairs, 'pair')} are listed.",
        share,
        low,
        high,
        reason=reason,
        advice="Check some pairs of near_duplicates, and keep one of each if they are versions of the same text.",
    )


def describe_isolated(found: Neighbours, threshold: float | None, metric: str, *, count: int) -> Section:
    """Return the section "isolated": documents, and queries, whose nearest document is no closer than chance.

    threshold: the score of the chosen false-match rate, as `score_floor` gives it; count: usable rows of the store
    """
    question = "Does every document have a neighbour?"
    if threshold is None or not len(found.rows):
        return Section("isolated", [Answer(question, "unknown", "There is no threshold to compare with.")])
    answers, tables = [], {}
    nearest = found.documents.scores[:, 0]
    alone = _is_alone(nearest, threshold, metric)
    table = pd.DataFrame({"row": found.rows[alone], "score": nearest[alone]})
    tables["isolated"] = table.sort_values("score", ascending=metric != "euclidean", ignore_index=True)
    answers.append(_alone(question, "documents", alone, threshold, exact=len(alone) == count))
    if found.queries is not None and len(found.queries.scores):
        missed = _is_alone(found.queries.scores[:, 0], threshold, metric)
        answers.append(_alone("Does every query find something?", "queries", missed, threshold))
    return Section("isolated", answers, tables, {"threshold": threshold})


def _is_alone(scores: NDArray[np.float64], threshold: float, metric: str) -> NDArray[np.bool_]:
    return scores > threshold if metric == "euclidean" else scores < threshold


def _alone(question: str, noun: str, alone: NDArray[np.bool_], threshold: float, *, exact: bool = False) -> Answer:
    share = float(alone.mean())
    low, high = (None, None) if exact else wilson_interval(share, len(alone))
    sentence = (
        f"{format_percent(share)} of the {noun} have no document that is closer than a chance match "
        f"({format_fixed(threshold)})."
    )
    return Answer(
        question,
        "attention" if share >= SOME_ISOLATED else "good",
        sentence,
        share,
        low,
        high,
        reason=f"nearest document of {len(alone):,} {noun}, against the threshold of the false-match rate",
        advice=""
        if share < SOME_ISOLATED
        else f"Nothing is found for such {noun} at this threshold: they are outliers, or it is too strict.",
    )
