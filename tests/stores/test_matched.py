"""Results of searches in two stores, compared by id, against brute force over lists of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from theodolite.stores.compare import compare_stores
from theodolite.stores.matched import PLACES, compare_results
from theodolite.stores.reader import ArrayReader

RNG = np.random.default_rng(3)
OLD = RNG.normal(size=(300, 16)).astype(np.float32)
NEW = (OLD @ RNG.normal(size=(16, 24)) + 2 * RNG.normal(size=(300, 24))).astype(np.float32)  # of another model
IDS = np.array([f"d{row}" for row in range(300)])


def make(vectors: NDArray[Any], ids: Any, name: str) -> ArrayReader:
    return ArrayReader(vectors, name=name, digest=name, columns={"id": np.asarray(ids)})


def nearest_ids(vectors: NDArray[Any], ids: NDArray[Any], metric: str) -> dict[str, list[str]]:
    x = vectors.astype(np.float64)
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = {}
    for row, name in enumerate(ids):
        score = -np.linalg.norm(x - x[row], axis=1) if metric == "euclidean" else x @ x[row]
        order = [other for other in np.argsort(-score, kind="stable") if other != row]
        found[str(name)] = [str(ids[other]) for other in order[:PLACES]]
    return found


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_overlap_and_churn_equal_those_of_lists_of_ids(metric: str) -> None:
    """The second store has other rows too, in another order: by row number nothing would agree."""
    order = RNG.permutation(300)[:260]
    second, ids = NEW[order], IDS[order]
    found = compare_results(make(OLD[:280], IDS[:280], "a"), make(second, ids, "b"), metric=metric)
    before, after = nearest_ids(OLD[:280], IDS[:280], metric), nearest_ids(second, ids, metric)
    common = [name for name in before if name in after]
    overlap = np.array([len(set(before[name]) & set(after[name])) / 10 for name in common])
    churn = np.array(
        [np.mean([x != y for x, y in zip(before[name], after[name], strict=True)]) for name in common]
    )
    assert found.facts["ids_in_both"] == len(common) == len(found.table)
    assert found.facts["overlap_10"][0] == pytest.approx(overlap.mean(), abs=1e-12)
    assert found.facts["churn_10"][0] == pytest.approx(churn.mean(), abs=1e-12)
    by_id = {
        str(ids[row]): value for row, value in zip(found.table["row"], found.table["overlap_10"], strict=True)
    }
    assert by_id == pytest.approx(dict(zip(common, overlap, strict=True)))
    assert 0.05 < overlap.mean() < 0.9
    by_row = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(before.values(), after.values(), strict=False)])
    assert by_row < overlap.mean() / 2


def test_another_width_is_compared_by_id_and_stated_as_an_answer() -> None:
    section = compare_stores(make(OLD, IDS, "a"), make(NEW, IDS, "b"), permutations=19)
    verdicts = {answer.question: answer for answer in section.answers}
    assert verdicts["Do the vectors of the two stores differ?"].verdict == "unknown"
    answer = verdicts["Do searches find the same documents?"]
    low, value, high = section.facts["results"]["overlap_10"][1], answer.value, answer.high
    assert low == answer.low
    assert low < value < high  # type: ignore[operator]
    assert answer.verdict == "attention"
    assert "of the 10 nearest documents are the same in both stores" in answer.sentence
    assert section.tables["search_changes"]["overlap_10"].is_monotonic_increasing


def test_the_same_directions_find_the_same_documents() -> None:
    turn = np.linalg.qr(RNG.normal(size=(16, 16)))[0]
    answer = compare_results(make(OLD, IDS, "a"), make(5 * OLD @ turn, IDS, "b"), metric="cosine").answer
    assert (answer.value, answer.verdict, answer.advice) == (1.0, "good", "")
    assert answer.low is not None
    assert answer.low < 1


def test_repeated_ids_and_unusable_rows_are_no_queries() -> None:
    ids = IDS.copy()
    ids[:5] = "same"
    other = NEW.copy()
    other[7] = np.nan
    found = compare_results(make(OLD, ids, "a"), make(other, IDS, "b"), metric="cosine")
    assert found.facts["ids_in_both"] == 300 - 5 - 1
    assert 7 not in found.table["row"].tolist()


def test_too_few_documents_have_a_reason() -> None:
    found = compare_results(make(OLD, IDS, "a"), make(NEW[:8], IDS[:8], "b"), metric="cosine")
    assert (found.answer.verdict, found.answer.value) == ("unknown", None)
    assert found.answer.reason == "8 ids in both stores, and 8 usable vectors in the smaller one"
    apart = compare_results(make(OLD, IDS, "a"), make(NEW, [f"x{row}" for row in range(300)], "b"), metric="dot")
    assert apart.answer.reason.startswith("0 ids in both stores")
