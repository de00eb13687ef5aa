"""Room: how many workers a cluster can hold, and how many cores each may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.errors import InputError


@dataclass(frozen=True, slots=True)
class Node:
    """What one machine lends."""

    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Room:
    """Workers, and what each takes of its machine."""

    workers: int
    cpus: int
    gpus: int


def check_wishes(workers: int | None, gpus: int) -> None:
    """Refuse numbers that no cluster could have room for."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: wanted at least 1.")
    if gpus not in (0, 1):
        raise InputError(f"--gpus-per-worker {gpus}: wanted 0 or 1; a model is on one GPU.")


def room(nodes: Sequence[Node], workers: int | None, gpus: int) -> Room:
    """Give every worker as many cores as all can have; without a wish, one worker a GPU, or one a machine.

    >>> room([Node(8, 0), Node(4, 0)], 3, 0)
    Room(workers=3, cpus=4, gpus=0)
    """
    check_wishes(workers, gpus)
    most = _fitting(nodes, 1, gpus)
    if not _fitting(nodes, 1, 0):
        raise InputError(
            f"--engine ray: the cluster's machines ({len(nodes)}) lend no core; add some that do "
            "(`ray start --address=HEAD:6379` on each)."
        )
    if gpus and not most:
        raise InputError(
            f"--gpus-per-worker 1: none of the cluster's machines ({len(nodes)}) lends a GPU with a core beside "
            "it; add some that do (`ray start` there finds them), or survey with --gpus-per-worker 0."
        )
    wanted = workers or (most if gpus else sum(node.cpus > 0 for node in nodes))
    if wanted > most:
        each = "a GPU and a core" if gpus else "a core"
        raise InputError(
            f"--workers {wanted}: the cluster has room for {most}, with {each} each; take fewer, or add machines."
        )
    cpus = 1
    while _fitting(nodes, cpus + 1, gpus) >= wanted:
        cpus += 1
    return Room(wanted, cpus, gpus)


def _fitting(nodes: Sequence[Node], cpus: int, gpus: int) -> int:
    """Return how many workers of this size fit."""
    return sum(min(node.cpus // cpus, node.gpus // gpus if gpus else node.cpus) for node in nodes)
