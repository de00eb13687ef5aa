"""Time against corpus size: the time of the fold, from text to sums, is linear in the number of tokens.

    python -m benchmarks.corpus_size

The first 1/8, 1/4, 1/2 and all of the documents are tokenized, run through the model and folded with all
statistics, alternately. The exponent is the slope of log time on log tokens, 1 if the time is linear. R2 is that
of the linear fit of time on tokens.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import time_alternately
from benchmarks.workload import Workload, load_workload
from theodolite.engines.local import fold_shards

SHARES = (0.125, 0.25, 0.5, 1.0)


def run(quick: bool = False, limit: int = 160, rounds: int = 3) -> dict[str, Any]:
    """Fold four sizes of one corpus alternately, and fit the medians."""
    of = load_workload(quick, limit=limit)
    sizes = [max(2, round(share * len(of.documents))) for share in SHARES]
    tokens = [sum(batch.positions for batch in of.source.prepare(of.documents[:size])) for size in sizes]
    fold_documents(of, sizes[0])  # warm up
    ways = {str(size): partial(fold_documents, of, size) for size in sizes}
    spent = [median(each) for each in time_alternately(ways, rounds, warm=False).values()]
    exponent = float(np.polyfit(np.log(tokens), np.log(spent), 1)[0])
    r2 = float(np.corrcoef(tokens, spent)[0, 1] ** 2)
    return {
        "rows": [
            Row(
                "time against corpus size, exponent",
                exponent,
                1.05,
                f"{format_seconds(spent[-1])} for {tokens[-1]:,} tokens, R2 {r2:.4f}",
                "1 is linear",
            ).to_dict()
        ],
        "tokens": tokens,
        "seconds": spent,
        "exponent": exponent,
        "r2": r2,
    }


def fold_documents(of: Workload, size: int) -> None:
    """Fold the first documents into empty folds, as in a survey."""
    fold_shards(of.source, of.folds(), [(0, of.documents[:size])], on_step=lambda step: None)


if __name__ == "__main__":
    run_from_command_line(run, __doc__, limit=160, rounds=3)
