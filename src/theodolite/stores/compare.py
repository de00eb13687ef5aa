"""Compare two stores, such as last month's and today's: which rows changed, and whether the vectors differ.

Rows that both stores hold unchanged count once, as rows of the first: what is new is compared with what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.hashing import mix_on
from theodolite.measures import two_samples
from theodolite.measures.two_samples import Difference, Samples
from theodolite.measures.uncertainty import holm
from theodolite.stores.answer import Answer, Section
from theodolite.stores.document_sample import DocumentSample, Keys, choose_both, name_rows
from theodolite.stores.duplicates import hash_contents
from theodolite.stores.matched import compare_results
from theodolite.stores.reader import Reader
from theodolite.text import format_number, join_words, pluralize

ROWS = 2000
"""Rows of each store in the tests: 6 seconds on one core for 999 permutations."""
PERMUTATIONS = 999
LEVEL = 0.05
MIN_LABELLINGS = 200
"""With fewer ways to permute the documents no p-value is small enough after the correction."""
EQUAL_LENGTHS = 1e-3
"""Lengths that vary by less, relative to their mean, are those of vectors normalised in half precision."""

NO_INTERVAL = "no interval: its coverage has not been simulated"


@dataclass(frozen=True)
class Aspect:
    """One test: what differs, what its value means, its value if nothing differs, and whether it is a square.

    interval: whether the coverage of its interval has been simulated
    """

    test: Callable[[Samples], Difference]
    differs: str
    meaning: str
    expected: float = 0.0
    squared: bool = False
    interval: bool = False


ASPECTS = {
    "mean": Aspect(
        two_samples.compare_means,
        "the mean",
        "distance of the means, in standard deviations of the vectors",
        squared=True,
        interval=True,
    ),
    "coordinate": Aspect(
        two_samples.compare_coordinates,
        "single coordinates",
        "difference of the means of the coordinate that differs most, in its standard deviations",
    ),
    "covariance": Aspect(
        two_samples.compare_covariances, "the covariance", "difference of the covariances, relative", squared=True
    ),
    "neighbours": Aspect(
        two_samples.compare_neighbours,
        "the neighbours",
        "share of the 10 nearest neighbours in the same store",
        0.5,
    ),
    "energy": Aspect(
        two_samples.compare_distances, "the distances", "energy distance, as a share of the mean distance"
    ),
    "length": Aspect(two_samples.compare_lengths, "the lengths", "energy distance of the lengths, relative"),
}


@dataclass
class Changes:
    """How many rows of the second store are new, unchanged or changed, and how many of the first are gone."""

    added: int = 0
    unchanged: int = 0
    changed: int = 0
    removed: int = 0


def compare_stores(
    a: Reader,
    b: Reader,
    *,
    groups: str | None = None,
    metric: str | None = None,
    rows: int = ROWS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    device: str = "cpu",
) -> Section:
    """Compare two stores: rows and results of searches by id, and tests of whether the vectors differ.

    groups: the column that names the document of a row; rows of one document stay together in permutations.
    Without it every row is a document of its own. metric: by "cosine" directions are compared, and lengths by a
    test of their own. rows: the number of rows of each store in the tests. Memory: 16 `rows` vectors of each
    store, tables (2 rows, 2 rows) and, with ids, 16 bytes for every row of the stores.
    """
    metric = metric or a.metric or b.metric or "cosine"
    by_id = "id" in a.columns and "id" in b.columns
    dtypes = [np.dtype(each.dtype) for each in (a, b)]
    dtype = min(dtypes, key=lambda each: each.itemsize) if by_id and a.dim == b.dim else None
    first = _Scan(a, groups, rows, metric, dtype)
    second = _Scan(b, groups, rows, metric, dtype, before=first if by_id else None)
    samples, facts = _draw(first, second, metric, rows, permutations, seed)
    table = run_tests(samples) if samples is not None else pd.DataFrame()
    facts |= {
        "names": [a.name, b.name],
        "rows": [first.rows, second.rows],
        "left_out": [first.left_out, second.left_out],
        "metric": metric,
        "groups": groups,
        "level": LEVEL,
    }
    answers, tables = [_summarise(table, facts)], {"tests": table}
    if by_id:
        facts["changes"] = vars(second.changes)
        answers.append(_describe_changes(second.changes, first.rows))
        matched = compare_results(a, b, metric=metric, device=device)
        answers.append(matched.answer)
        facts["results"] = matched.facts
        tables["search_changes"] = matched.table
    kept = {name: each for name, each in tables.items() if len(each)}
    return Section("against", answers, kept, facts)


class _Scan:
    """One pass over a store: counts, a sample of documents, and the hashes of all ids and rows.

    dtype: in which contents are compared, if they are; before: the scan of the first store, if rows have ids
    """

    def __init__(
        self,
        reader: Reader,
        groups: str | None,
        size: int,
        metric: str,
        dtype: np.dtype[Any] | None,
        before: _Scan | None = None,
    ) -> None:
        self.dim, self.rows, self.left_out = reader.dim, 0, 0
        self.sample, self.changes = DocumentSample(size), Changes()
        ids, contents = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for block in reader.blocks():
            document, row = name_rows(reader, block, groups)
            norms = np.linalg.norm(block.vectors.astype(np.float64), axis=1)
            kept = np.isfinite(norms) & ((norms > 0) | (metric != "cosine"))
            self.rows += len(block)
            self.left_out += len(block) - int(kept.sum())
            if "id" in block.columns:
                ids.append(row)
            if dtype is not None:
                contents.append(mix_on(row, hash_contents(block.vectors.astype(dtype, copy=False)).view(np.int64)))
            if before is not None:
                kept &= ~self._compare(before, row, contents[-1])
            if kept.any():
                self.sample.update(document[kept], row[kept], block.vectors[kept])
        self.ids, self.contents = np.sort(np.concatenate(ids)), np.sort(np.concatenate(contents))
        if before is not None:
            self.changes.removed = int((~_contains(self.ids, before.ids)).sum())

    def _compare(self, before: _Scan, row: Keys, content: Keys) -> NDArray[np.bool_]:
        """Count the rows of a block by what became of them, and return which are unchanged."""
        known = _contains(before.ids, row)
        same = _contains(before.contents, content) if len(content) else np.zeros(len(row), dtype=bool)
        self.changes.unchanged += int(same.sum())
        self.changes.changed += int((known & ~same).sum())
        self.changes.added += int((~known).sum())
        return same


def _contains(known: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Return which keys are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(keys), dtype=bool)
    at = np.searchsorted(known, keys)
    return np.asarray(known[np.minimum(at, len(known) - 1)] == keys)


def _draw(
    first: _Scan, second: _Scan, metric: str, rows: int, permutations: int, seed: int
) -> tuple[Samples | None, dict[str, Any]]:
    """Return the rows to test with facts about them; or None, with the reason among the facts."""
    if first.dim != second.dim:
        return None, {"reason": f"the vectors have {first.dim} and {second.dim} coordinates"}
    parts = (first.sample, second.sample)
    if any(part.vectors is None for part in parts):
        which = "first" if parts[0].vectors is None else "second"
        unchanged = " that is new or changed" if which == "second" and second.changes.unchanged else ""
        return None, {"reason": f"the {which} store has no vector{unchanged}"}
    chosen = choose_both(*parts, rows)
    documents = [part.document[at] for part, at in zip(parts, chosen, strict=True)]
    held = [np.asarray(part.vectors)[at] for part, at in zip(parts, chosen, strict=True)]
    vectors = np.concatenate(held).astype(np.float64)
    counts = [len(np.unique(each)) for each in documents]
    paired = len(np.intersect1d(documents[0], documents[1]))
    facts = {
        "documents": counts,
        "documents_in_both": paired,
        "sampled": [len(each) for each in documents],
        "permutations": permutations,
    }
    labellings = comb(sum(counts) - 2 * paired, counts[1] - paired) * 2**paired
    if labellings < MIN_LABELLINGS:
        few = f"{pluralize(counts[0], 'document')} and {counts[1]:,} can be permuted in {labellings:,} ways only"
        return None, facts | {"reason": few}
    lengths = np.linalg.norm(vectors, axis=1)
    if metric == "cosine":
        vectors /= lengths[:, None]
    second_side = np.repeat([False, True], [len(each) for each in documents])
    _, codes = np.unique(np.concatenate(documents), return_inverse=True)
    return Samples(vectors, second_side, codes, lengths=lengths, permutations=permutations, seed=seed), facts


def run_tests(samples: Samples) -> pd.DataFrame:
    """Return one row per test: p, p_adjusted (Holm), the size of the difference and a 95% interval.

    expected: the value if nothing differs; coordinate: the one that differs most; meaning: that of the value;
    reason: why a number is missing. Only the mean has an interval.
    """
    found = []
    for name, aspect in ASPECTS.items():
        lengths = samples.lengths
        if name == "length" and lengths.std() <= EQUAL_LENGTHS * lengths.mean():
            test, reason = Difference(nan, nan, nan), "all vectors have the same length"
        else:
            test, reason = aspect.test(samples), "" if aspect.interval else NO_INTERVAL
        half = 1.96 * test.se if aspect.interval else nan
        ends = [test.value, test.value - half, test.value + half]
        if aspect.squared:
            ends = [sqrt(max(end, 0.0)) if end == end else nan for end in ends]
        found.append((name, test.p, *ends, aspect.expected, test.coordinate, aspect.meaning, reason))
    table = pd.DataFrame(found, columns="test p value low high expected coordinate meaning reason".split()).astype(
        {"coordinate": "Int64"}
    )
    adjusted = holm(table["p"].to_numpy())
    table.insert(1, "differs", adjusted <= LEVEL)
    table.insert(3, "p_adjusted", adjusted)
    return table


def _summarise(table: pd.DataFrame, facts: dict[str, Any]) -> Answer:
    """Return the answer over all tests."""
    question = "Do the vectors of the two stores differ?"
    if not len(table):
        return Answer(question, "unknown", f"Unknown: {facts['reason']}.", reason=facts["reason"])
    least = float(table["p_adjusted"].min())
    counts, in_both = facts["documents"], facts["documents_in_both"]
    documents = f" of {counts[0]:,} and {pluralize(counts[1], 'document')}" if facts["groups"] else ""
    reason = (
        f"{int(table['p'].notna().sum())} permutation tests on {facts['sampled'][0]:,} and "
        f"{pluralize(facts['sampled'][1], 'row')}{documents}"
        + (f", {in_both:,} of them in both" if in_both else "")
        + ", corrected for the number of tests (Holm)"
    )
    # Rows of one document that are permuted one by one make p too small.
    advice = "" if facts["groups"] else "If rows belong to documents, name their column with --groups."
    differing = [ASPECTS[name].differs for name in table.loc[table["differs"], "test"]]
    if not differing:
        sentence = f"No difference was found: the smallest adjusted p is {format_number(least, 2)}."
        return Answer(question, "good", sentence, least, reason=reason)
    sentence = f"Yes: {join_words(differing)} (adjusted p {format_number(least, 2)})."
    return Answer(question, "attention", sentence, least, reason=reason, advice=advice)


def _describe_changes(changes: Changes, before: int) -> Answer:
    """Return the answer about single rows."""
    parts = [f"{count:,} {name}" for name, count in vars(changes).items() if count]
    share = (changes.added + changes.changed + changes.removed) / max(before, 1)
    return Answer(
        "Which rows changed?",
        "good" if changes.unchanged else "attention",
        f"Rows by id: {join_words(parts) if parts else 'none'}.",
        share,
        reason="Value: rows added, changed and removed over the rows of the first store. Vectors are equal if all "
        "their numbers are, in the narrower type of the two stores",
    )
