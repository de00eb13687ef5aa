"""The cost of merging surveys of 2 and of 4 parts, compared with the fold of the same documents.

    python -m benchmarks.merging

The parts are every second or fourth document, folded separately. Merging copies the sums of the first part, as
`merge` does, and adds those of the others. Making tables and writing files take the same time for both and are
omitted.
"""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import time_alternately
from benchmarks.workload import Workload, load_workload
from theodolite.engines.local import fold_shards
from theodolite.statistics.fold import LayerFold

Folds = dict[int, LayerFold]


def run(quick: bool = False, limit: int = 100, rounds: int = 5) -> dict[str, Any]:
    """Fold the documents in parts and time it, then merge 2 and 4 parts alternately, several times."""
    of = load_workload(quick, limit=limit)
    parts, folding = {}, {}
    for count in (2, 4):
        started = time.perf_counter()
        parts[count] = [fold_documents(of, of.documents[first::count]) for first in range(count)]
        folding[count] = time.perf_counter() - started
    ways = {str(count): partial(merge_parts, chosen) for count, chosen in parts.items()}
    spent = time_alternately(ways, rounds)
    rows = [
        Row(
            f"merging {count} parts over folding them",
            median(spent[str(count)]) / folding[count],
            0.05,
            format_seconds(median(spent[str(count)])),
            format_seconds(folding[count]),
        ).to_dict()
        for count in parts
    ]
    return {"rows": rows, "units": int(merge_parts(parts[2])[0].moments.population((0, 1, 2, 3)).codes.numel())}


def fold_documents(of: Workload, documents: list[tuple[int, str]]) -> Folds:
    """Return the sums of these documents."""
    folds = of.folds()
    fold_shards(of.source, folds, [(0, documents)], on_step=lambda step: None)
    return folds


def merge_parts(parts: list[Folds]) -> Folds:
    """Return the sums of all parts without changing them."""
    total = {index: fold.copy() for index, fold in parts[0].items()}
    for part in parts[1:]:
        for index, fold in total.items():
            fold.merge(part[index])
    return total


if __name__ == "__main__":
    run_from_command_line(run, __doc__, limit=100, rounds=5)
