"""How many workers fit, and what is refused."""

from __future__ import annotations

import pytest

from theodolite.engines.ray.room import Node, Room, room
from theodolite.errors import InputError


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "expected"),
    [
        ([Node(1, 0), Node(1, 0)], None, 0, Room(2, 1, 0)),
        ([Node(0, 0), Node(8, 0), Node(4, 0)], None, 0, Room(2, 4, 0)),  # a head that lends nothing
        ([Node(8, 0)], 3, 0, Room(3, 2, 0)),
        ([Node(3, 0), Node(1, 0)], 2, 0, Room(2, 1, 0)),
        ([Node(96, 8), Node(96, 8)], None, 1, Room(16, 12, 1)),
        ([Node(96, 8), Node(4, 0)], 2, 1, Room(2, 48, 1)),
    ],
)
def test_workers_share_the_cores(nodes: list[Node], workers: int | None, gpus: int, expected: Room) -> None:
    assert room(nodes, workers, gpus) == expected


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "words"),
    [
        ([Node(2, 0)], 0, 0, "--workers 0: wanted at least 1"),
        ([Node(2, 0)], 3, 0, "--workers 3: the cluster has room for 2, with a core each"),
        ([Node(8, 2)], 3, 1, "--workers 3: the cluster has room for 2, with a GPU and a core each"),
        ([Node(2, 0), Node(2, 0)], None, 1, r"none of the cluster's machines \(2\) lends a GPU"),
        ([Node(8, 2)], None, 2, "--gpus-per-worker 2: wanted 0 or 1"),
        ([], None, 0, r"the cluster's machines \(0\) lend no core; add some"),
        ([Node(0, 8)], 2, 1, r"the cluster's machines \(1\) lend no core; add some"),
    ],
)
def test_what_does_not_fit_is_refused(nodes: list[Node], workers: int | None, gpus: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        room(nodes, workers, gpus)
