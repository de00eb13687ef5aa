"""What merging costs: surveys of 2 and of 4 parts added up, over the fold of the same documents.

    python -m benchmarks.merging

The parts are every second or fourth document, folded apart. Merging copies the first part's sums, as `merge` does,
and adds the others'; reading the tables off and the disk are the same for both and left out.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.alone import main
from benchmarks.row import Row, seconds
from benchmarks.subject import Subject, subject
from benchmarks.turns import middle, take_turns
from theodolite.engines.local import fold_shards
from theodolite.statistics.fold import LayerFold

Folds = dict[int, LayerFold]


def run(quick: bool = False, limit: int = 100, rounds: int = 5) -> dict[str, Any]:
    """Fold the documents in parts, timed, then merge the parts several times, 2 and 4 in turn."""
    of = subject(quick, limit=limit)
    parts, folding = {}, {}
    for count in (2, 4):
        began = time.perf_counter()
        parts[count] = [folded(of, of.documents[first::count]) for first in range(count)]
        folding[count] = time.perf_counter() - began
    ways = {str(count): partial(merged, some) for count, some in parts.items()}
    spent = take_turns(ways, rounds)
    rows = [
        Row(
            f"merging {count} parts over folding them",
            middle(spent[str(count)]) / folding[count],
            0.05,
            seconds(middle(spent[str(count)])),
            seconds(folding[count]),
        ).told()
        for count in parts
    ]
    return {"rows": rows, "units": int(merged(parts[2])[0].moments.population((0, 1, 2, 3)).codes.numel())}


def folded(of: Subject, documents: list[tuple[int, str]]) -> Folds:
    """Return the sums of these documents."""
    folds = of.folds()
    fold_shards(of.source, folds, [(0, documents)], told=lambda step: None)
    return folds


def merged(parts: list[Folds]) -> Folds:
    """Return the sums of all parts, leaving each as it was."""
    whole = {index: fold.copy() for index, fold in parts[0].items()}
    for part in parts[1:]:
        for index, fold in whole.items():
            fold.merge(part[index])
    return whole


if __name__ == "__main__":
    main(run, __doc__, limit=100, rounds=5)
