"""The share of a probe set that one process measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.integrations.processes import Processes


@dataclass(frozen=True, eq=False)
class Share:
    """Batches of this process, and batches that it runs only because other processes have more of their own."""

    batches: Sequence[Any]
    idle: Sequence[Any]
    positions: int  # of all processes


def make_share(
    items: Sequence[Any], prepare: Callable[[Sequence[Any]], Sequence[Any]], processes: Processes, *, sharded: bool
) -> Share:
    """Deal the items to the processes and return the share of this one.

    A sharded model must be run equally often by all processes: those with fewer batches run one again, and one
    without items runs the first item. The states of these runs are not counted.
    """
    with processes.fail_together():
        mine = items[processes.rank :: processes.size]
        batches = prepare(mine) if len(mine) else []
        idle = prepare(items[:1]) if len(items) and not batches else batches
    counts = processes.all_gather((len(batches), sum(batch.positions for batch in batches)))
    missing = max(count for count, _ in counts) - len(batches) if sharded else 0
    return Share(batches, list(idle[:1]) * missing, sum(positions for _, positions in counts))
