"""Streaming search against the definition: all scores in float64, sorted."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.devices import DEVICES

from theodolite.errors import InputError
from theodolite.stores.reader import ArrayReader, Block
from theodolite.stores.search import METRICS, Search, search

ROUNDING = 1e-5  # float32 products of vectors of norm about 4: 16 x 6e-8 x sqrt(dim), several times
Array = NDArray[Any]


def as_store(vectors: Array) -> ArrayReader:
    return ArrayReader(vectors, name="store", digest="0")


def score_all(vectors: Array, queries: Array, metric: str) -> Array:
    """Every score by its definition, in float64; euclidean distances are negated, so that larger is nearer."""
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "euclidean":
        return -np.stack([np.linalg.norm(x - one, axis=1) for one in q])
    if metric == "cosine":
        x, q = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, q))
    return np.asarray(q @ x.T)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_nearest_rows_are_those_of_the_definition(metric: str, dtype: type, k: int) -> None:
    rng = np.random.default_rng(k)
    vectors, queries = rng.normal(size=(9_000, 12)).astype(dtype), rng.normal(size=(40, 12))
    scores, rows = search(as_store(vectors), queries, k, metric)
    every = score_all(vectors, queries, metric)
    best = -np.sort(-every, axis=1)[:, :k]
    sign = -1 if metric == "euclidean" else 1
    assert np.abs(sign * scores - best).max() < ROUNDING
    # A row may be another one only where two scores are equal up to rounding.
    assert np.abs(np.take_along_axis(every, rows, axis=1) - best).max() < ROUNDING
    assert all(len(set(found)) == k for found in rows.tolist())


@pytest.mark.parametrize("metric", METRICS)
def test_sorted_stores_and_many_queries_are_searched_exactly(metric: str) -> None:
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(9_000, 6)), rng.normal(size=(1_100, 6))
    vectors = vectors[np.argsort(score_all(vectors, queries[:1], metric)[0])]  # the nearest come last
    scores, _ = search(as_store(vectors), queries, 5, metric)
    best = -np.sort(-score_all(vectors, queries, metric), axis=1)[:, :5]
    assert np.abs((-scores if metric == "euclidean" else scores) - best).max() < ROUNDING


def test_a_common_offset_leaves_distances_exact() -> None:
    rng = np.random.default_rng(1)
    vectors, offset = rng.normal(size=(500, 8)).astype(np.float32), np.float32(1000)
    queries = vectors[:20] + np.float32(0.25)
    moved_vectors, moved_queries = vectors + offset, queries + offset
    expected = -np.sort(-score_all(moved_vectors, moved_queries, "euclidean"), axis=1)[:, :3]
    scores, _ = search(as_store(moved_vectors), moved_queries, 3, "euclidean")
    assert np.abs(scores + expected).max() < 1e-4
    # The expansion |q|^2 + |x|^2 - 2 q.x of the vectors as they are loses the distances.
    products = moved_queries @ moved_vectors.T
    squares = (moved_queries**2).sum(1)[:, None] + (moved_vectors**2).sum(1) - 2 * products
    assert np.abs(np.sort(np.sqrt(np.maximum(squares, 0)), axis=1)[:, :3] + expected).max() > 0.1


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_a_gpu_finds_what_the_definition_and_the_cpu_find(metric: str, dtype: type, k: int, device: str) -> None:
    rng = np.random.default_rng(k)
    vectors, queries = rng.normal(size=(150_000, 24)).astype(dtype), rng.normal(size=(70, 24))
    vectors[1000], vectors[2000, 3] = 0, np.nan
    exclude = np.arange(70)
    on_gpu, on_cpu = (
        search(as_store(vectors), queries, k, metric, exclude=exclude, device=each) for each in (device, "cpu")
    )
    assert np.abs(on_gpu.scores - on_cpu.scores).max() < ROUNDING
    with np.errstate(invalid="ignore"):
        every = score_all(vectors, queries, metric)
    every[:, 2000] = -np.inf
    every[:, 1000] = -np.inf if metric == "cosine" else every[:, 1000]
    every[exclude, exclude] = -np.inf
    best = -np.sort(-every, axis=1)[:, :k]
    assert np.abs(np.take_along_axis(every, on_gpu.rows, axis=1) - best).max() < ROUNDING
    assert all(len(set(found)) == k for found in on_gpu.rows.tolist())
    assert (on_gpu.rows == on_cpu.rows).mean() > 0.99  # others have scores that are equal up to rounding


@pytest.mark.parametrize("device", DEVICES)
def test_equal_scores_are_listed_in_the_order_of_rows(device: str) -> None:
    vectors = np.tile(np.eye(2, dtype=np.float32), (50_000, 1))
    scores, rows = search(as_store(vectors), np.array([[1.0, 0.0]]), 6, "dot", device=device)
    assert rows.tolist() == [[0, 2, 4, 6, 8, 10]]
    assert scores.tolist() == [[1.0] * 6]


def test_rows_that_have_no_score_are_never_found() -> None:
    vectors = np.array([[np.nan, 1.0], [0.0, 0.0], [np.inf, 1.0], [-1.0, 0.0], [1e30, 1e30], [1.0, 1.0]])
    queries = np.array([[1.0, 0.0], [0.0, 0.0], [np.nan, 0.0]])
    cosine = search(as_store(vectors), queries, 3, "cosine")
    assert cosine.rows.tolist() == [[5, 3, -1], [-1] * 3, [-1] * 3]
    assert np.isnan(cosine.scores[0, 2])
    assert np.isnan(cosine.scores[1:]).all()
    assert search(as_store(vectors), queries, 2, "euclidean").rows.tolist() == [[1, 5], [1, 3], [-1, -1]]


def test_excluded_rows_are_not_found() -> None:
    vectors = np.random.default_rng(2).normal(size=(300, 4))
    rows = np.array([3, 150, 299])
    assert search(as_store(vectors), vectors[rows], 1).rows[:, 0].tolist() == rows.tolist()
    found = search(as_store(vectors), vectors[rows], 299, exclude=rows).rows
    assert [set(range(300)) - set(one) for one in found.tolist()] == [{3}, {150}, {299}]


@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 200), max_size=4),
    k=st.integers(1, 30),
    metric=st.sampled_from(METRICS),
    turned=st.booleans(),
)
def test_any_split_and_order_of_parts_equals_the_whole(
    seed: int, cuts: list[int], k: int, metric: str, turned: bool
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, size=(200, 3)).astype(np.float32)  # many equal scores
    queries = rng.integers(-2, 3, size=(8, 3)).astype(np.float32)
    whole = search(as_store(vectors), queries, k, metric)
    edges = [0, *sorted(cuts), 200]
    parts = []
    for first, last in pairwise(edges):
        part = Search(queries, k, metric)
        part.update(Block(first, vectors[first:last]))
        parts.append(part)
    merged = Search(queries, k, metric)
    for part in reversed(parts) if turned else parts:
        merged.merge(part)
    loaded = Search(queries, k, metric)
    loaded.load(merged.state())
    for found in (merged.result(), loaded.result()):
        np.testing.assert_allclose(found.scores, whole.scores, atol=1e-6)
        if metric != "cosine":  # products of integers are exact; unit vectors are rounded, and ties with them
            np.testing.assert_array_equal(found.rows, whole.rows)


@given(order=st.permutations(range(5)), k=st.integers(1, 80), seed=st.integers(0, 2**32 - 1))
def test_blocks_in_any_order_list_equal_scores_by_row(order: list[int], k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, size=(500, 2)).astype(np.float32)
    queries = rng.integers(-1, 2, size=(4, 2)).astype(np.float32)
    found = Search(queries, k, "dot")
    for number in order:
        found.update(Block(100 * number, vectors[100 * number : 100 * (number + 1)]))
    expected = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.result().rows, expected)


class MadeStore:
    """Rows that are made when they are read, so only what a search keeps takes memory."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, self.count, 2048):
            yield Block(start, np.random.default_rng(start).standard_normal((2048, 64), dtype=np.float32))


def measure_peak(count: int) -> int:
    """Return the growth of the resident memory by a search of `count` rows in a process of its own, in bytes."""
    code = (
        "import resource, sys, numpy as np\n"
        "from tests.stores.test_search import MadeStore, search\n"
        "queries = np.random.default_rng(1).standard_normal((256, 64), dtype=np.float32)\n"
        "search(MadeStore(4096), queries, 100)\n"  # libraries and their buffers
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "search(MadeStore(int(sys.argv[1])), queries, 100)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code, str(count)],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    return int(run.stdout) * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="resource is not available")
def test_memory_does_not_grow_with_the_number_of_rows() -> None:
    rows = 64 * 2048
    # All rows are 34 MB, all scores of 256 queries 134 MB. Allowed: what the allocator keeps back.
    assert measure_peak(rows) < 12e6


def test_wrong_input_is_rejected() -> None:
    store, queries = as_store(np.eye(3)), np.eye(3)
    with pytest.raises(InputError, match=r"metric must be one of cosine, dot, euclidean \(got 'cosin'\)."):
        search(store, queries, 1, "cosin")
    with pytest.raises(InputError, match="k must be at least 1"):
        search(store, queries, 0)
    with pytest.raises(InputError, match="queries have 2 coordinates, and the store's vectors 3"):
        search(store, np.eye(2), 1)
    with pytest.raises(InputError, match=r"queries must have the shape \(queries, dim\)"):
        search(store, np.ones(3), 1)
