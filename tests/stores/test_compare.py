"""Two stores compared: which rows changed, samples of documents, and what the tests conclude."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.stores.compare import NO_INTERVAL, compare_stores
from theodolite.stores.document_sample import (
    ROWS_PER_DOCUMENT,
    DocumentSample,
    choose_both,
    hash_names,
)
from theodolite.stores.duplicates import hash_contents
from theodolite.stores.reader import ArrayReader


def make(vectors: NDArray[Any], name: str = "a", **columns: Any) -> ArrayReader:
    return ArrayReader(
        vectors, name=name, digest=name, columns={key: np.asarray(value) for key, value in columns.items()}
    )


def draw(
    documents: int, seed: int = 0, dim: int = 8, each: int = 4
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), each)
    centres = rng.standard_normal((documents, dim))
    return (centres[document] + rng.standard_normal((len(document), dim)) + 1).astype(np.float32), document


def test_rows_are_counted_by_id() -> None:
    x, _ = draw(50)
    later = x[20:].copy()
    later[:30] += 1.0
    found = compare_stores(
        make(x[:150], id=np.arange(150)), make(later, "b", id=[str(i) for i in range(20, 200)]), permutations=19
    )
    assert found.facts["changes"] == {"added": 50, "unchanged": 100, "changed": 30, "removed": 20}
    assert "50 added, 100 unchanged, 30 changed and 20 removed" in found.answers[1].sentence
    assert found.facts["documents_in_both"] == 30


def test_half_precision_is_not_a_change() -> None:
    x, _ = draw(20)
    found = compare_stores(make(x, id=np.arange(80)), make(x.astype(np.float16), "b", id=np.arange(80)))
    assert found.facts["changes"]["unchanged"] == 80
    assert (found.answers[0].verdict, found.answers[0].value) == ("unknown", None)
    assert "no vector that is new or changed" in found.answers[0].sentence


def test_new_rows_are_compared_with_those_that_were_there() -> None:
    """Ten percent of new rows differ. Against the whole second store, the old rows would hide them."""
    x, document = draw(200, each=2)
    new, _ = draw(30, seed=1, each=2)
    both = np.concatenate([x, new + 1.0])
    groups = np.concatenate([document, 200 + np.repeat(np.arange(30), 2)])
    first = make(x, id=np.arange(400), document=document)
    second = make(both, "b", id=np.arange(460), document=groups)
    found = compare_stores(first, second, groups="document", permutations=199, metric="euclidean")
    assert found.facts["documents"] == [200, 30]
    table = found.tables["tests"].set_index("test")
    assert table.loc["mean", "differs"]
    assert table.loc["mean", "low"] < table.loc["mean", "value"] < table.loc["mean", "high"]
    # Only the interval of the mean has been simulated.
    assert table.drop(index="mean")[["low", "high"]].isna().all(axis=None)
    assert table.drop(index="mean")["reason"].eq(NO_INTERVAL).all()
    assert found.answers[0].verdict == "attention"
    assert "the mean" in found.answers[0].sentence


@pytest.mark.parametrize(
    ("name", "test"),
    [("mean", "mean"), ("scale", "length"), ("cluster", "neighbours"), ("rotation", "covariance")],
)
def test_planted_shifts_are_found(name: str, test: str) -> None:
    x, document = draw(200, each=3)
    x[:, 0] *= 3
    second = document % 2 == 1
    y = x[second].copy()
    if name == "mean":
        y += 0.5
    elif name == "scale":
        y *= 1.3
    elif name == "cluster":
        y[:60] = 0.2 * y[:60] - 4 * (np.arange(8) == 5)
    else:
        y[:, [0, 1]] = y[:, [1, 0]]
    found = compare_stores(
        make(x[~second], document=document[~second]),
        make(y, "b", document=document[second]),
        groups="document",
        permutations=199,
    )
    table = found.tables["tests"].set_index("test")
    assert table.loc[test, "differs"], table


def test_splits_by_document_alarm_only_if_rows_are_permuted() -> None:
    x, document = draw(80, each=5)
    rng = np.random.default_rng(0)
    alarms = {"document": 0, None: 0}
    for seed in range(40):
        second = (rng.permutation(80) % 2 == 1)[document]
        halves = [make(x[side], f"{seed}{side[0]}", document=document[side]) for side in (~second, second)]
        for groups in alarms:
            found = compare_stores(halves[0], halves[1], groups=groups, permutations=199, seed=seed)
            alarms[groups] += found.answers[0].verdict == "attention"
    assert alarms["document"] <= 7  # 2 of 40 expected; more than 7 have a probability of 0.1%
    assert alarms[None] >= 20


def test_equal_lengths_are_not_tested() -> None:
    x, _ = draw(40)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    table = compare_stores(make(x[:80]), make(x[80:], "b"), permutations=19).tables["tests"].set_index("test")
    assert np.isnan(table.loc["length", "p"])
    assert table.loc["length", "reason"] == "all vectors have the same length"
    assert not table.loc["length", "differs"]


def test_unusable_rows_are_left_out_and_counted() -> None:
    x, _ = draw(40)
    x[3] = np.nan
    x[5] = 0.0
    found = compare_stores(make(x[:80]), make(x[80:], "b"), permutations=19)
    assert found.facts["left_out"] == [2, 0]
    assert found.tables["tests"]["p"].notna().all()


def test_what_cannot_be_tested_has_a_reason() -> None:
    x, document = draw(6)
    few = compare_stores(
        make(x[:12], document=document[:12]), make(x[12:], "b", document=document[12:]), groups="document"
    )
    assert few.answers[0].verdict == "unknown"
    assert "3 documents and 3 can be permuted in 20 ways only" in few.answers[0].sentence
    other = compare_stores(make(x, id=np.arange(24)), make(x[:, :4], "b", id=np.arange(24)))
    assert "8 and 4 coordinates" in other.answers[0].sentence
    assert other.facts["changes"]["changed"] == 24
    empty = compare_stores(make(x), make(x[:0], "b"))
    assert empty.answers[0].reason == "the second store has no vector"


def test_unknown_groups_are_rejected() -> None:
    x, document = draw(6)
    with pytest.raises(InputError, match=r"b: --groups: no column 'document' \(columns: none\)"):
        compare_stores(make(x, document=document), make(x, "b"), groups="document")


@given(cuts=st.lists(st.integers(0, 120), max_size=5), seed=st.integers(0, 5))
def test_a_sample_does_not_depend_on_order_or_blocks(cuts: list[int], seed: int) -> None:
    x, document = draw(30)
    keys, rows = hash_names(document, np.zeros(120, np.uint64)), hash_contents(x)
    whole = DocumentSample(10)
    whole.update(keys, rows, x)
    order = np.random.default_rng(seed).permutation(120)
    merged = DocumentSample(10)
    for part in np.split(order, sorted(cuts)):
        piece = DocumentSample(10)
        piece.update(keys[part], rows[part], x[part])
        merged.merge(piece)
    np.testing.assert_array_equal(merged.document, whole.document)
    np.testing.assert_array_equal(merged.vectors, whole.vectors)
    assert len(np.unique(whole.document)) == 10


def test_samples_take_as_many_documents_as_possible() -> None:
    samples = []
    for documents, each in ((50, 30), (500, 2)):
        x, document = draw(documents, each=each)
        sample = DocumentSample(200)
        sample.update(hash_names(document, np.zeros(len(x), np.uint64)), hash_contents(x), x)
        samples.append(sample)
    assert samples[0].count(100) == 50 * ROWS_PER_DOCUMENT
    chosen = choose_both(samples[0], samples[1], 100)
    largest = [
        np.unique(sample.document[at], return_counts=True)[1].max()
        for sample, at in zip(samples, chosen, strict=True)
    ]
    assert [len(at) for at in chosen] == [100, 100]
    assert largest == [2, 2]  # one row of each of 50 documents would not be enough


def test_contents_are_equal_up_to_the_sign_of_zero() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = np.random.default_rng(0).standard_normal((1000, 3)).astype(dtype)
        x[7] = x[3]
        x[8], x[9] = 0.0, -0.0
        keys = hash_contents(x)
        assert keys[7] == keys[3]
        assert keys[8] == keys[9]
        assert len(np.unique(keys)) == len(np.unique(x, axis=0))
