"""The capacity of a cluster: the number of workers that it can run, and the cores and the memory of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from theodolite.engines.engine import WorkerMemory
from theodolite.environment import MEMORY_SHARE
from theodolite.errors import InputError


@dataclass(frozen=True, slots=True)
class Node:
    """The cores and GPUs of one machine."""

    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of workers, and the cores and GPUs of each."""

    workers: int
    cpus: int
    gpus: int


def check_worker_options(workers: int | None, gpus: int) -> None:
    """Raise for numbers that no cluster could satisfy."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1 (got {workers}).")
    if gpus not in (0, 1):
        raise InputError(f"--gpus-per-worker must be 0 or 1, since a model is on one GPU (got {gpus}).")


def fit_workers(nodes: Sequence[Node], workers: int | None, gpus: int) -> Capacity:
    """Give each worker as many cores as all workers can have. By default: one worker per GPU, or per machine.

    >>> fit_workers([Node(8, 0), Node(4, 0)], 3, 0)
    Capacity(workers=3, cpus=4, gpus=0)
    """
    check_worker_options(workers, gpus)
    most = _count_fitting(nodes, 1, gpus)
    if not _count_fitting(nodes, 1, 0):
        raise InputError(
            f"--engine ray: the machines of the cluster ({len(nodes)}) offer no cores. Add machines that do "
            "(`ray start --address=HEAD:6379` on each)."
        )
    if gpus and not most:
        raise InputError(
            f"--gpus-per-worker 1: none of the machines of the cluster ({len(nodes)}) offers a GPU together with "
            "a core. Add machines that do (`ray start` finds their GPUs), or use --gpus-per-worker 0."
        )
    count = workers or (most if gpus else sum(node.cpus > 0 for node in nodes))
    if count > most:
        each = "a GPU and a core" if gpus else "a core"
        raise InputError(
            f"--workers {count}: the cluster can run {most}, with {each} each. Use fewer workers, or add machines."
        )
    cpus = 1
    while _count_fitting(nodes, cpus + 1, gpus) >= count:
        cpus += 1
    return Capacity(count, cpus, gpus)


def find_least_memory(free: Iterable[tuple[str, int]]) -> WorkerMemory:
    """Return the memory of each worker on the machine with the least, from each worker's host and its free bytes.

    Workers of a machine load the model at the same time, so the least that one of them found free is what is left
    for the sums of all.

    >>> find_least_memory([("a", 1000), ("b", 900), ("b", 800)])
    WorkerMemory(bytes=320, host='b', workers=2)
    """
    by_host = defaultdict[str, list[int]](list)
    for host, found in free:
        by_host[host].append(found)
    shares = ((int(MEMORY_SHARE * min(found)) // len(found), host, len(found)) for host, found in by_host.items())
    return WorkerMemory(*min(shares))


def _count_fitting(nodes: Sequence[Node], cpus: int, gpus: int) -> int:
    """Return the number of workers of this size that fit."""
    return sum(min(node.cpus // cpus, node.gpus // gpus if gpus else node.cpus) for node in nodes)
