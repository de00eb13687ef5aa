"""Answers about the rows of a store: usable rows, norms, norm outliers and exact duplicates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from theodolite.measures.norms import norm_quantiles
from theodolite.statistics.norms import bin_edges
from theodolite.stores.answer import Answer, Section, Verdict
from theodolite.stores.duplicates import chance_of_collision, find_duplicates
from theodolite.stores.scan import UNIT_TOLERANCE, Scan
from theodolite.text import format_number, format_percent, pluralize

MASSIVE = 10.0
"""A row is a norm outlier if it is this many times longer or shorter than the median."""
MANY_COPIES = 0.1
"""Share of repeated rows from which duplicates are called bad: a tenth of the store is paid for twice."""


def describe_rows(scan: Scan, metric: str) -> Section:
    """Return the section "rows" of a store's results."""
    duplicates = find_duplicates(scan.hashes, scan.hashed_rows)
    quantiles = _norm_quantiles(scan)
    outliers = _list_outliers(scan, quantiles.get("norm_p50", float("nan")))
    listed = {name: scan.lists[name].rows for name in ("nonfinite", "zero")}
    unusable = pd.DataFrame(
        [(int(row), name) for name, rows in listed.items() for row in rows], columns=["row", "reason"]
    ).astype({"row": "int64", "reason": "object"})
    tables = {"duplicates": duplicates, "unusable_rows": unusable, "norm_outliers": outliers}
    facts = {
        "rows": scan.rows,
        "dim": scan.dim,
        "nonfinite": scan.nonfinite,
        "zero": scan.zero,
        "unnormalised": scan.unnormalised,
        "repeated": len(duplicates),
        "chance_of_hash_collision": chance_of_collision(scan.count),
        **quantiles,
    }
    answers = [_usable(scan), _repeated(scan, duplicates), _normalised(scan, metric, quantiles)]
    return Section("rows", [*answers, _outlying(scan, outliers, quantiles)], tables, facts)


def _usable(scan: Scan) -> Answer:
    question, bad = "Are all vectors usable?", scan.nonfinite + scan.zero
    share = bad / scan.rows if scan.rows else 0.0
    if not bad:
        all_rows = f"All {scan.rows:,} vectors are" if scan.rows > 1 else "The only vector is"
        sentence = f"{all_rows} finite and not zero."
        return Answer(question, "good", sentence, 0.0, reason="counted over all rows")
    kinds = [
        text
        for count, text in (
            (scan.nonfinite, f"{scan.nonfinite:,} with NaN or infinity"),
            (scan.zero, f"{scan.zero:,} that {'is' if scan.zero == 1 else 'are'} zero"),
        )
        if count
    ]
    return Answer(
        question,
        "bad",
        f"{bad:,} of {scan.rows:,} vectors cannot be used: {' and '.join(kinds)}.",
        share,
        reason="counted over all rows; they are left out of all other numbers",
        advice="Embed these rows again or delete them: by cosine they have no neighbours. See unusable_rows.",
    )


def _repeated(scan: Scan, duplicates: pd.DataFrame) -> Answer:
    question, reason = "Are there exact duplicates?", "hash of the contents of every row"
    if not scan.count:
        return Answer(question, "unknown", "There is no usable vector.", reason=reason)
    if scan.count == 1:
        return Answer(question, "good", "There is only one vector.", 0.0, reason=reason)
    share = len(duplicates) / scan.count
    if duplicates.empty:
        return Answer(question, "good", f"No two of {scan.count:,} vectors are equal.", 0.0, reason=reason)
    groups = int(duplicates["copy_of"].nunique())
    verdict: Verdict = "bad" if share >= MANY_COPIES else "attention"
    most = f"{int(duplicates['copies'].max()):,} times"
    return Answer(
        question,
        verdict,
        f"{pluralize(len(duplicates), 'vector')} ({format_percent(share)}) "
        f"{'repeats' if len(duplicates) == 1 else 'repeat'} another one exactly: {pluralize(groups, 'vector')} "
        f"{f'occurs {most}' if groups == 1 else f'occur more than once, at most {most}'}.",
        share,
        reason=reason,
        advice="Keep one row of each group: copies take places in the results of every query. See duplicates.",
    )


def _normalised(scan: Scan, metric: str, quantiles: dict[str, float]) -> Answer:
    question = "Are the vectors normalised?"
    if not scan.count:
        return Answer(question, "unknown", "There is no usable vector.")
    share = scan.unnormalised / scan.count
    reason = f"a norm within {UNIT_TOLERANCE:.0%} of 1, counted over all rows"
    if not scan.unnormalised:
        return Answer(
            question,
            "good",
            "All vectors have norm 1, so cosine, dot product and Euclidean distance rank alike.",
            0.0,
            reason=reason,
        )
    span = (
        f"Norms are between {format_number(quantiles['norm_p01'])} and {format_number(quantiles['norm_p99'])} "
        f"for 98% of the vectors"
    )
    if metric == "cosine":
        some = "" if share == 1 else f"; {scan.unnormalised:,} of {scan.count:,} are not normalised"
        verdict: Verdict = "good" if share == 1 else "attention"
        advice = (
            "" if share == 1 else "Find out why only some are normalised: two pipelines may have written them."
        )
        return Answer(
            question, verdict, f"{span}{some}. Cosine ignores them.", share, reason=reason, advice=advice
        )
    effect = "The dot product prefers long vectors." if metric == "dot" else "Distances depend on it."
    return Answer(
        question,
        "attention",
        f"{span}. {effect}",
        share,
        reason=reason,
        advice="Normalise documents and queries, unless the model was trained with norms that matter.",
    )


def _norm_quantiles(scan: Scan) -> dict[str, float]:
    if not scan.count:
        return {}
    shortest = float(scan.lists["shortest"].keys[0])
    longest = float(-scan.lists["longest"].keys[0])
    found = norm_quantiles(scan.norms, bin_edges().numpy(), 0, shortest, longest)
    return {"norm_lowest": shortest, **found, "norm_highest": longest}


def _list_outliers(scan: Scan, median: float) -> pd.DataFrame:
    """Return the rows that are MASSIVE times longer or shorter than the median, at most 100 of each."""
    rows = np.concatenate([scan.lists["shortest"].rows, scan.lists["longest"].rows])
    norms = np.concatenate([scan.lists["shortest"].keys, -scan.lists["longest"].keys])
    far = (norms > MASSIVE * median) | (norms * MASSIVE < median)
    table = pd.DataFrame({"row": rows[far], "norm": norms[far], "over_median": norms[far] / median})
    return table.drop_duplicates("row").sort_values("norm", ascending=False, ignore_index=True)


def _outlying(scan: Scan, outliers: pd.DataFrame, quantiles: dict[str, float]) -> Answer:
    question = "Are there vectors of unusual length?"
    if not scan.count:
        return Answer(question, "unknown", "There is no usable vector.")
    edges, median = bin_edges().numpy(), quantiles["norm_p50"]
    if not np.isfinite(median):
        return Answer(
            question, "unknown", "The median norm is outside 2^-40 to 2^60, where norms are not counted."
        )
    far = (edges[:-1] > MASSIVE * median) | (edges[1:] * MASSIVE < median)
    count = max(int(scan.norms[far].sum()), len(outliers))
    reason = f"more than {MASSIVE:g} times longer or shorter than the median, {format_number(median)}"
    if not count:
        return Answer(
            question, "good", "No vector is ten times longer or shorter than the median.", 0.0, reason=reason
        )
    return Answer(
        question,
        "attention",
        f"{pluralize(count, 'vector')} {'is' if count == 1 else 'are'} ten times longer or shorter than the "
        "median "
        f"({format_number(quantiles['norm_lowest'])} to {format_number(quantiles['norm_highest'])}).",
        count / scan.count,
        reason=reason,
        advice="Look at their texts: such vectors often come from empty or broken input. See norm_outliers.",
    )
