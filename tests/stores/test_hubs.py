"""Hubs and antihubs against plain counts, and the share of the most frequent documents."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from theodolite.stores.hubs import K, Lists, count_occurrences, crowding, describe_hubs


def draw_lists(queries: int, documents: int, weights: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return lists of K different documents, drawn with these weights."""
    rng = np.random.default_rng(seed)
    keys = rng.exponential(size=(queries, documents)) / weights
    return np.argsort(keys, axis=1)[:, :K]


def test_occurrences_are_counts_over_all_lists():
    rows = draw_lists(50, 40, np.ones(40))
    rows[3, 7:] = -1
    found = count_occurrences(rows, 40)
    plain = Counter(int(row) for row in rows.flatten() if row >= 0)
    assert found.tolist() == [plain[row] for row in range(40)]


def test_without_hubs_the_first_percent_takes_one_percent_and_counting_the_same_lists_does_not():
    rows = draw_lists(800, 4000, np.ones(4000))
    share, low, high = crowding(rows, 4000)
    assert low - 0.002 <= 0.01 <= high + 0.002
    occurrences = np.sort(count_occurrences(rows, 4000))[::-1]
    assert occurrences[:40].sum() / occurrences.sum() > 2.5 * share  # chance alone


def test_planted_hubs_are_found_with_their_share_and_ids():
    weights = np.ones(3000)
    weights[[17, 2042]] = 400.0  # two hubs, and 28 more documents among the first 1%
    rows = draw_lists(1000, 3000, weights, seed=1)
    found = describe_hubs(Lists(rows, np.ones(3000, bool), "queries", census=False))
    hubs = found.tables["hubs"]
    assert set(hubs["row"][:2]) == {17, 2042}
    truth = np.isin(rows, [17, 2042]).sum(1).mean() / K
    share, low, high = crowding(rows, 3000)
    assert low <= truth + 28 / 3000 * (1 - truth) <= high
    for row in hubs.head(2).itertuples():
        assert row.lists == (rows == row.row).sum()
        assert row.low < row.share < row.high
    assert found.answers[0].verdict == ("attention" if share >= 0.1 else "good")


def test_antihubs_are_the_documents_in_no_list():
    weights = np.ones(60)
    weights[50:] = 1e-12
    rows = draw_lists(60, 60, weights)
    usable = np.ones(60, bool)
    usable[[3, 55]] = False
    found = describe_hubs(Lists(np.where(np.isin(rows, [3]), 4, rows), usable, "documents", census=True))
    assert found.tables["antihubs"]["row"].tolist() == [50, 51, 52, 53, 54, 56, 57, 58, 59]
    assert found.answers[1].value == pytest.approx(9 / 58)


def test_too_few_queries_to_reach_all_documents_is_said():
    rows = draw_lists(100, 5000, np.ones(5000))
    found = describe_hubs(Lists(rows, np.ones(5000, bool), "queries", census=False))
    assert found.answers[1].verdict == "unknown"
    assert found.facts["never_found"] == pytest.approx(found.facts["never_found_if_even"], abs=0.01)
    assert "antihubs" not in found.tables


def test_few_documents_have_no_hubs():
    (answer,) = describe_hubs(
        Lists(np.zeros((5, 1), np.int64), np.ones(5, bool), "documents", census=True)
    ).answers
    assert (answer.verdict, answer.value) == ("unknown", None)
