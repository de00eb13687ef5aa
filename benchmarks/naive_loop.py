"""The fold against the naive loop: one Python step per token and layer in float32, as papers' scripts sum.

    python -m benchmarks.naive_loop

Both get the same states of the same batches, batch by batch in turn. The loop keeps n, the sum and the sum of
squares of every token; beside it the same sums about the pilot's centre in float64 (moments), and everything that
a survey keeps. The ratio of whole surveys adds the forward pass to both. The loop adds rows of NumPy and does the
least there is to do: three sums, which lose V where a coordinate is far from 0.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.alone import main
from benchmarks.row import Row
from benchmarks.subject import subject
from benchmarks.turns import Seconds, one_round, ratio
from theodolite.batch import Batch
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import Moments


class Loop:
    """n, sum of x and sum of |x|^2 by token, one at a time, in float32: what loses V where a coordinate is far."""

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
    """Time the statistics of every batch three ways, in turn, and the forward pass beside them."""
    of = subject(quick, limit=limit)
    everything = of.folds()
    moments = {index: LayerFold(fold.frame, (Moments,)) for index, fold in of.folds(("all",)).items()}
    loops = {index: Loop(fold.frame.dim) for index, fold in everything.items()}
    spent: Seconds = {"moments": [], "everything": [], "loop": []}
    forward, tokens = 0.0, 0
    for number, batch in enumerate(of.source.prepare(of.documents)):
        states: list[Batch] = []
        began = time.perf_counter()
        of.source.run(batch, states.append)
        forward += time.perf_counter() - began
        tokens += batch.positions
        kept: dict[str, Any] = {"moments": moments, "everything": everything, "loop": loops}
        one_round({name: partial(update, into, states) for name, into in kept.items()}, number, spent)
    speed = {name: tokens / sum(taken) for name, taken in spent.items()}
    whole = {name: tokens / (forward + sum(taken)) for name, taken in spent.items()}
    theirs = f"{speed['loop']:,.0f} tokens/s"
    return {
        "rows": [
            Row(
                "the same sums over the naive loop",
                ratio(spent["moments"], spent["loop"]),
                1.0,
                f"{speed['moments']:,.0f} tokens/s",
                theirs,
            ).told(),
            Row(
                "all statistics over the naive loop",
                ratio(spent["everything"], spent["loop"]),
                None,
                f"{speed['everything']:,.0f} tokens/s",
                theirs,
            ).told(),
            Row(
                "survey over forward with the naive loop",
                whole["loop"] / whole["everything"],
                None,
                f"{whole['everything']:,.0f} tokens/s",
                f"{whole['loop']:,.0f} tokens/s",
            ).told(),
        ],
        "loop_updates_per_second": speed["loop"] * len(everything),
        "tokens": tokens,
    }


if __name__ == "__main__":
    main(run, __doc__, limit=100)
