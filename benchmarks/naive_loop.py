"""The fold compared with a naive loop: one Python step per token and layer in float32, as in scripts of papers.

    python -m benchmarks.naive_loop

Both read the same states, alternately for every batch. The loop keeps n, the sum and the sum of squares of every
token. It is compared with the same sums about the pilot's centre in float64 (moments), and with all statistics of
a survey. The ratio of complete surveys adds the forward pass to both. The loop adds NumPy rows and does the
minimum: three sums, which lose V if a coordinate is far from 0.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.results import Row
from benchmarks.runner import run_from_command_line
from benchmarks.timing import Seconds, ratio, time_round
from benchmarks.workload import load_workload
from theodolite.batch import Batch
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import Moments


class Loop:
    """n, sum of x and sum of |x|^2 of every token, one at a time, in float32."""

    def __init__(self, dim: int) -> None:
        self.n: dict[int, int] = defaultdict(int)
        self.sum: dict[int, Any] = defaultdict(lambda: np.zeros(dim, dtype=np.float32))
        self.squares: dict[int, Any] = defaultdict(lambda: np.float32(0))

    def update(self, batch: Batch) -> None:
        for unit, x in zip(batch.places.unit.tolist(), batch.states.numpy(), strict=True):
            self.n[unit] += 1
            self.sum[unit] += x
            self.squares[unit] += x @ x


def update(into: Mapping[int, LayerFold | Loop], states: list[Batch]) -> None:
    for batch in states:
        into[batch.layer].update(batch)


def run(quick: bool = False, limit: int = 100) -> dict[str, Any]:
    """Time the statistics of every batch in three ways alternately, and the forward pass."""
    of = load_workload(quick, limit=limit)
    everything = of.folds()
    moments = {index: LayerFold(fold.frame, (Moments,)) for index, fold in of.folds(("all",)).items()}
    loops = {index: Loop(fold.frame.dim) for index, fold in everything.items()}
    spent: Seconds = {"moments": [], "everything": [], "loop": []}
    forward, tokens = 0.0, 0
    for number, batch in enumerate(of.source.prepare(of.documents)):
        states: list[Batch] = []
        started = time.perf_counter()
        of.source.run(batch, states.append)
        forward += time.perf_counter() - started
        tokens += batch.positions
        kept: dict[str, Any] = {"moments": moments, "everything": everything, "loop": loops}
        time_round({name: partial(update, into, states) for name, into in kept.items()}, number, spent)
    speed = {name: tokens / sum(taken) for name, taken in spent.items()}
    complete = {name: tokens / (forward + sum(taken)) for name, taken in spent.items()}
    theirs = f"{speed['loop']:,.0f} tokens/s"
    return {
        "rows": [
            Row(
                "the same sums over the naive loop",
                ratio(spent["moments"], spent["loop"]),
                1.0,
                f"{speed['moments']:,.0f} tokens/s",
                theirs,
            ).to_dict(),
            Row(
                "all statistics over the naive loop",
                ratio(spent["everything"], spent["loop"]),
                None,
                f"{speed['everything']:,.0f} tokens/s",
                theirs,
            ).to_dict(),
            Row(
                "survey over forward with the naive loop",
                complete["loop"] / complete["everything"],
                None,
                f"{complete['everything']:,.0f} tokens/s",
                f"{complete['loop']:,.0f} tokens/s",
            ).to_dict(),
        ],
        "loop_updates_per_second": speed["loop"] * len(everything),
        "tokens": tokens,
    }


if __name__ == "__main__":
    run_from_command_line(run, __doc__, limit=100)
