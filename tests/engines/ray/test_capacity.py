"""The number of workers that fit on a cluster, the memory of each, and requests that are rejected."""

from __future__ import annotations

import pytest

from theodolite.engines.engine import WorkerMemory
from theodolite.engines.ray.capacity import Capacity, Node, find_least_memory, fit_workers
from theodolite.errors import InputError


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "expected"),
    [
        ([Node(1, 0), Node(1, 0)], None, 0, Capacity(2, 1, 0)),
        ([Node(0, 0), Node(8, 0), Node(4, 0)], None, 0, Capacity(2, 4, 0)),  # a head without cores
        ([Node(8, 0)], 3, 0, Capacity(3, 2, 0)),
        ([Node(3, 0), Node(1, 0)], 2, 0, Capacity(2, 1, 0)),
        ([Node(96, 8), Node(96, 8)], None, 1, Capacity(16, 12, 1)),
        ([Node(96, 8), Node(4, 0)], 2, 1, Capacity(2, 48, 1)),
    ],
)
def test_workers_share_the_cores(nodes: list[Node], workers: int | None, gpus: int, expected: Capacity) -> None:
    assert fit_workers(nodes, workers, gpus) == expected


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "words"),
    [
        ([Node(2, 0)], 0, 0, r"--workers must be at least 1 \(got 0\)"),
        ([Node(2, 0)], 3, 0, "--workers 3: the cluster can run 2, with a core each"),
        ([Node(8, 2)], 3, 1, "--workers 3: the cluster can run 2, with a GPU and a core each"),
        ([Node(2, 0), Node(2, 0)], None, 1, r"none of the machines of the cluster \(2\) offers a GPU"),
        ([Node(8, 2)], None, 2, r"--gpus-per-worker must be 0 or 1, .* \(got 2\)"),
        ([], None, 0, r"the machines of the cluster \(0\) offer no cores"),
        ([Node(0, 8)], 2, 1, r"the machines of the cluster \(1\) offer no cores"),
    ],
)
def test_what_does_not_fit_is_rejected(nodes: list[Node], workers: int | None, gpus: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit_workers(nodes, workers, gpus)


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([("one", 1000)], WorkerMemory(800, "one", 1)),
        ([("large", 1000), ("small", 600), ("large", 1000)], WorkerMemory(400, "large", 2)),  # which it shares
        ([("large", 3000), ("small", 600), ("large", 3000)], WorkerMemory(480, "small", 1)),
        ([("one", 1000), ("one", 500)], WorkerMemory(200, "one", 2)),  # the first was asked before all had loaded
        ([("b", 1000), ("a", 1000)], WorkerMemory(800, "a", 1)),
    ],
)
def test_the_machine_with_the_least_memory_for_each_worker(
    free: list[tuple[str, int]], expected: WorkerMemory
) -> None:
    assert find_least_memory(free) == expected
