"""Answers about scores: what two random vectors score, and which score means a match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.stores.answer import Answer, Section, Verdict
from theodolite.stores.duplicates import find_duplicates
from theodolite.stores.pair_scores import Moments, PairScores, Threshold, cross_moments, pair_moments
from theodolite.stores.scan import Scan
from theodolite.text import format_fixed, format_number, pluralize

RATES = (0.5, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
DOCUMENTS, QUERIES = "document-document", "query-document"
HIGH, VERY_HIGH = 0.5, 0.9
"""Mean cosines from which the floor is called high: thresholds from elsewhere do not apply to such a store."""
NOUN = {"cosine": "cosine", "dot": "dot product", "euclidean": "distance"}


def describe_floor(scan: Scan, metric: str, rate: float, queries: Scan | None = None) -> Section:
    """Return the section "floor": moments, thresholds and the meaning of scores, by kind of pair.

    `rate` is the share of random pairs that may exceed the threshold. `queries` is the scan of real queries.
    Thresholds are over pairs of different vectors: a pair of exact copies is no false match. One row of each group
    of copies stands for it, so that the rows of the sample that do are a uniform sample of the different vectors.
    """
    if scan.count < 2:
        few = f"It requires two usable vectors (the store has {scan.count})."
        return Section("floor", [Answer("What do two random vectors score?", "unknown", few)])
    copies = find_duplicates(scan.hashes, scan.hashed_rows)["row"]
    held = scan.sample.sorted()
    sample = held["vector"][~np.isin(held["row"].numpy(), copies)]
    distinct = scan.count - len(copies)
    moments = {DOCUMENTS: pair_moments(scan.count, scan.units, scan.products)}
    scores = {DOCUMENTS: PairScores(sample, distinct, metric=metric)}
    if queries is not None and queries.count:
        moments[QUERIES] = cross_moments(
            scan.count, scan.units, scan.products, queries.count, queries.units, queries.products
        )
        asked = queries.sample.sorted()["vector"]
        scores[QUERIES] = PairScores(sample, distinct, metric=metric, queries=asked, of_queries=queries.count)
    rates = sorted({*RATES, rate}, reverse=True)
    thresholds = {kind: one.thresholds(rates) for kind, one in scores.items()}
    tables = {
        "thresholds": _threshold_table(thresholds, metric),
        "scores": pd.concat([_score_table(kind, one, metric) for kind, one in scores.items()]),
        "score_curve": pd.concat([_curve_table(kind, one, metric) for kind, one in scores.items()]),
    }
    facts: dict[str, Any] = {"metric": metric, "false_match_rate": rate, "pairs": {}}
    answers = []
    for kind, one in scores.items():
        chosen = next(found for found in thresholds[kind] if found.rate == rate)
        facts["pairs"][kind] = {
            "mean_cosine": moments[kind].mean,
            "sd_cosine": math.sqrt(moments[kind].variance),
            "sampled_pairs": one.pairs // (2 if kind == DOCUMENTS else 1),
            "threshold": _signed(chosen.value, metric),
        }
        suffix = f" ({kind} pairs)" if len(scores) > 1 else ""
        answers += [_floor(kind, moments[kind], suffix), _match(kind, chosen, one, metric, suffix)]
    return Section("floor", answers, tables, facts)


def _signed(value: float | None, metric: str) -> float | None:
    """Return a score as users read it: a distance is positive."""
    return value if value is None or metric != "euclidean" else -value


def _floor(kind: str, moments: Moments, suffix: str) -> Answer:
    question = f"What do two random vectors score?{suffix}"
    pair = "two random documents" if kind == DOCUMENTS else "a random query and a random document"
    sentence = (
        f"The cosine of {pair} is {format_fixed(moments.mean)} on average, with a standard deviation of "
        f"{format_fixed(math.sqrt(moments.variance))}."
    )
    reason = "exact over all pairs, from sums of unit vectors and of their products"
    if moments.mean < HIGH:
        return Answer(question, "good", sentence, moments.mean, reason=reason)
    verdict: Verdict = "bad" if moments.mean >= VERY_HIGH else "attention"
    advice = (
        "Every pair looks similar: use the threshold below instead of one from another model, and try subtracting "
        "the mean from documents and queries."
    )
    return Answer(question, verdict, sentence, moments.mean, reason=reason, advice=advice)


def _match(kind: str, chosen: Threshold, scores: PairScores, metric: str, suffix: str) -> Answer:
    question = f"Which score means a match?{suffix}"
    if chosen.value is None:
        return Answer(
            question,
            "unknown",
            f"The threshold for a false-match rate of {chosen.rate:g} is not known.",
            reason=chosen.reason,
            advice="Use a larger --sample-size or a larger --false-match-rate.",
        )
    low, high = sorted(float(_signed(end, metric) or 0.0) for end in (chosen.low, chosen.high))
    value = float(_signed(chosen.value, metric) or 0.0)
    side = "below" if metric == "euclidean" else "above"
    each = pluralize(max(1, round(1 / chosen.rate)), "random pair")
    expected = chosen.rate * scores.of
    sampled = len(scores.rows) < scores.of
    return Answer(
        question,
        "good",
        f"A {NOUN[metric]} {side} {format_fixed(value)}: 1 in {each} is {side} it, so one query matches about "
        f"{format_number(expected, 2)} of {scores.of:,} different documents by chance.",
        value,
        low if sampled else None,
        high if sampled else None,
        reason=f"{scores.pairs // (2 if kind == DOCUMENTS else 1):,} pairs of "
        + (f"{len(scores.rows):,} sampled vectors" if sampled else "all vectors")
        + ", without exact copies",
        advice="The table scores has the share of random pairs for every score.",
    )


def _threshold_table(found: dict[str, list[Threshold]], metric: str) -> pd.DataFrame:
    rows = []
    for kind, thresholds in found.items():
        for one in thresholds:
            ends = [_signed(end, metric) for end in (one.low, one.high)]
            low, high = ends if metric != "euclidean" else ends[::-1]
            value = _signed(one.value, metric)
            row = {"pairs": kind, "false_match_rate": one.rate, "threshold": value, "low": low, "high": high}
            rows.append(row | {"undefined": one.reason or None})
    return pd.DataFrame(rows).astype({"threshold": float, "low": float, "high": float})


def _score_table(kind: str, scores: PairScores, metric: str) -> pd.DataFrame:
    """Return the share of random pairs that are closer than each score, and how many documents that is."""
    marks = _marks(scores)
    shares = scores.shares_above(marks)
    return pd.DataFrame(
        {
            "pairs": kind,
            "score": [_signed(mark, metric) for mark in marks],
            "share_closer": [share.value for share in shares],
            "low": [share.low for share in shares],
            "high": [share.high for share in shares],
            "matches_by_chance": [share.value * scores.of for share in shares],
        }
    )


def _marks(scores: PairScores) -> Sequence[float]:
    if scores.metric == "cosine":
        return [float(mark) for mark in np.round(np.arange(-0.2, 1.0, 0.02), 2) + 0.0]
    return [float(mark) for mark in np.linspace(*scores.range, 52)[1:-1]]


def _curve_table(kind: str, scores: PairScores, metric: str) -> pd.DataFrame:
    at, density = scores.curve()
    return pd.DataFrame({"pairs": kind, "score": [_signed(float(x), metric) for x in at], "density": density})
