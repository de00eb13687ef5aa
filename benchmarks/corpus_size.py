"""Time against corpus size: the fold from text to sums takes a time that grows as the tokens do.

    python -m benchmarks.corpus_size

The first 1/8, 1/4, 1/2 and all of the documents are tokenized, carried through the model and folded with every
statistic, in turn. The exponent is the slope of log time on log tokens, 1 where time is linear; R2 is that of the
straight line of time on tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.alone import main
from benchmarks.row import Row, seconds
from benchmarks.subject import Subject, subject
from benchmarks.turns import middle, take_turns
from theodolite.engines.local import fold_shards

SHARES = (0.125, 0.25, 0.5, 1.0)


def run(quick: bool = False, limit: int = 160, rounds: int = 3) -> dict[str, Any]:
    """Fold four sizes of one corpus, in turn, and fit the medians."""
    of = subject(quick, limit=limit)
    sizes = [max(2, round(share * len(of.documents))) for share in SHARES]
    tokens = [sum(batch.positions for batch in of.source.prepare(of.documents[:size])) for size in sizes]
    folding(of, sizes[0])  # warm up
    ways = {str(size): partial(folding, of, size) for size in sizes}
    spent = [middle(each) for each in take_turns(ways, rounds, warm=False).values()]
    exponent = float(np.polyfit(np.log(tokens), np.log(spent), 1)[0])
    r2 = float(np.corrcoef(tokens, spent)[0, 1] ** 2)
    return {
        "rows": [
            Row(
                "time against corpus size, exponent",
                exponent,
                1.05,
                f"{seconds(spent[-1])} for {tokens[-1]:,} tokens, R2 {r2:.4f}",
                "1 is linear",
            ).told()
        ],
        "tokens": tokens,
        "seconds": spent,
        "exponent": exponent,
        "r2": r2,
    }


def folding(of: Subject, size: int) -> None:
    """Fold the first documents into empty folds, as a survey does."""
    fold_shards(of.source, of.folds(), [(0, of.documents[:size])], told=lambda step: None)


if __name__ == "__main__":
    main(run, __doc__, limit=160, rounds=3)
