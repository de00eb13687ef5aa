"""What the statistics cost beside the forward pass: a survey over the forward pass alone.

    python -m benchmarks.fold --limit 300

Every batch is run three ways in turn: forward alone, with the core statistics, with everything a survey keeps.
The rows are gathered out of the padded batch in all three: that is the source's work, not the fold's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.alone import main
from benchmarks.row import Row, seconds
from benchmarks.subject import Subject, subject
from benchmarks.turns import Seconds, one_round, ratio
from theodolite.batch import Batch
from theodolite.measures.twonn import twonn
from theodolite.statistics.directions import Directions
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import Moments
from theodolite.statistics.scatter import Scatter
from theodolite.surveys.state import State

CORE = (Moments, Directions, Scatter)


def run(quick: bool = False, model: str = "minilm-l6", limit: int = 400) -> dict[str, Any]:
    """Time every batch three ways, in turn; the ratio is the median over batches."""
    of = subject(quick, model=model, limit=limit)
    batches = of.source.prepare(of.documents)
    core, everything = _core(of), of.folds()
    spent: Seconds = {"forward": [], "core": [], "everything": []}

    def ways(batch: Any) -> dict[str, Callable[[], None]]:
        def alone(states: Batch) -> None: ...

        return {
            "forward": lambda: of.source.run(batch, alone),
            "core": lambda: of.source.run(batch, lambda states: core[states.layer].update(states)),
            "everything": lambda: of.source.run(batch, lambda states: everything[states.layer].update(states)),
        }

    for batch in batches[:2]:  # warm up
        one_round(ways(batch), 0, {name: [] for name in spent})
    core, everything = _core(of), of.folds()
    for number, batch in enumerate(batches):
        one_round(ways(batch), number, spent)
    tokens = sum(batch.positions for batch in batches)
    speed = {name: tokens / sum(taken) for name, taken in spent.items()}
    theirs = f"{speed['forward']:,.0f} tokens/s"
    return {
        "rows": [
            Row(
                f"survey over forward, {part}",
                ratio(spent[way], spent["forward"]),
                bound,
                f"{speed[way]:,.0f} tokens/s",
                theirs,
            ).told()
            for way, part, bound in (("core", "core statistics", 1.15), ("everything", "everything", 1.30))
        ],
        "fold_over_forward_sum": sum(spent["core"]) / sum(spent["forward"]),
        "fold_over_forward_everything_sum": sum(spent["everything"]) / sum(spent["forward"]),
        "forward_tokens_per_second": speed["forward"],
        "batches": len(batches),
        "pilot_seconds": of.pilot_seconds,
        **_apart(of, everything),
    }


def _core(of: Subject) -> dict[int, LayerFold]:
    return {index: LayerFold(fold.frame, CORE) for index, fold in of.folds(("all",)).items()}


def _apart(of: Subject, folds: dict[int, LayerFold]) -> dict[str, Any]:
    """Time what a survey does besides the fold: a checkpoint, and TwoNN of a layer's sample."""
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        State(folds, of.source.units).save(Path(folder))
        checkpoint = time.perf_counter() - began
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    sample = folds[max(folds)].sample.population((0, 1, 2, 3))
    began = time.perf_counter()
    twonn(sample["vector"], contexts=sample["context"])
    return {
        "checkpoint": f"{seconds(checkpoint)} for {size / 1e6:.0f} MB",
        "twonn_seconds_a_layer": time.perf_counter() - began,
    }


if __name__ == "__main__":
    main(run, __doc__, model="minilm-l6", limit=400)
