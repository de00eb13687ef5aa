"""The cost of the statistics: the time of a survey divided by that of the forward pass by itself.

    python -m benchmarks.fold --limit 300

Every batch is run in three ways alternately: forward only, with the core statistics, and with all statistics of a
survey. All three gather the rows from the padded batch, because that is the work of the source and not of the
fold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import Seconds, ratio, time_round
from benchmarks.workload import Workload, load_workload
from theodolite.batch import Batch
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.state.state import State
from theodolite.statistics.directions import Directions
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import Moments
from theodolite.statistics.scatter import Scatter

CORE = (Moments, Directions, Scatter)


def run(quick: bool = False, model: str = "minilm-l6", limit: int = 400) -> dict[str, Any]:
    """Time every batch in three ways alternately; the ratio is the median over batches."""
    of = load_workload(quick, model=model, limit=limit)
    batches = of.source.prepare(of.documents)
    core, everything = _core(of), of.folds()
    spent: Seconds = {"forward": [], "core": [], "everything": []}

    def ways(batch: Any) -> dict[str, Callable[[], None]]:
        def discard(states: Batch) -> None: ...

        return {
            "forward": lambda: of.source.run(batch, discard),
            "core": lambda: of.source.run(batch, lambda states: core[states.layer].update(states)),
            "everything": lambda: of.source.run(batch, lambda states: everything[states.layer].update(states)),
        }

    for batch in batches[:2]:  # warm up
        time_round(ways(batch), 0, {name: [] for name in spent})
    core, everything = _core(of), of.folds()
    for number, batch in enumerate(batches):
        time_round(ways(batch), number, spent)
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
            ).to_dict()
            for way, part, bound in (("core", "core statistics", 1.15), ("everything", "everything", 1.30))
        ],
        "fold_over_forward_sum": sum(spent["core"]) / sum(spent["forward"]),
        "fold_over_forward_everything_sum": sum(spent["everything"]) / sum(spent["forward"]),
        "forward_tokens_per_second": speed["forward"],
        "batches": len(batches),
        "pilot_seconds": of.pilot_seconds,
        **_apart(of, everything),
    }


def _core(of: Workload) -> dict[int, LayerFold]:
    return {index: LayerFold(fold.frame, CORE) for index, fold in of.folds(("all",)).items()}


def _apart(of: Workload, folds: dict[int, LayerFold]) -> dict[str, Any]:
    """Time two other parts of a survey: a checkpoint, and TwoNN of the sample of one layer."""
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        State(folds, of.source.units).save(Path(folder))
        checkpoint = time.perf_counter() - started
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    sample = folds[max(folds)].sample.population((0, 1, 2, 3))
    started = time.perf_counter()
    twonn(sample["vector"], contexts=sample["context"])
    return {
        "checkpoint": f"{format_seconds(checkpoint)} for {size / 1e6:.0f} MB",
        "twonn_seconds_a_layer": time.perf_counter() - started,
    }


if __name__ == "__main__":
    run_from_command_line(run, __doc__, model="minilm-l6", limit=400)
