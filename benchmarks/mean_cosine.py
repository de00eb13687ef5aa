"""The mean cosine over all pairs from one sum, compared with sampling pairs and with computing every pair.

    python -m benchmarks.mean_cosine

The data are 100,000 vectors of 384 coordinates in float32 that point in similar directions, a few of them much
longer. Sampling draws pairs from stored vectors, so its time is only that of the pairs. The exact method reads
every vector once and stores none. Every pair is computed for 4,000 vectors only, because the number grows
quadratically.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.results import Row, format_number, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import ratio, time_alternately
from benchmarks.workload import split_batches
from theodolite.measures.cosine import mean_cosine, sampled_cosine
from theodolite.statistics.directions import Directions
from theodolite.statistics.frame import Frame


def exact(x: Tensor) -> float:
    """Return the mean cosine over all pairs as in a survey, batch by batch."""
    frame = Frame(torch.zeros(x.shape[1]))
    directions = Directions(frame)
    for rows in split_batches(x, frame):
        directions.update(rows)
    return mean_cosine(int(directions.n[0]), directions.sum[0].numpy())


def every_pair(x: Tensor) -> float:
    """Return the same from the matrix of all cosines, in float64."""
    u = torch.nn.functional.normalize(x.double(), dim=1)
    cosines = u @ u.T
    n = len(u)
    return float((cosines.sum() - cosines.diagonal().sum()) / (n * (n - 1)))


def run(quick: bool = False, n: int = 100_000, dim: int = 384, few: int = 4000, rounds: int = 7) -> dict[str, Any]:
    """Time each method alternately with the exact one, and report the error of each."""
    if quick:
        n, dim, few, rounds = 3000, 16, 200, 3
    x = anisotropic_vectors(n, dim)
    kept = x.numpy()
    spent = time_alternately(
        {
            "exact": lambda: exact(x),
            "1,000 pairs": lambda: sampled_cosine(kept, 1000),
            "100,000 pairs": lambda: sampled_cosine(kept, 100_000),
        },
        rounds,
    )
    small = time_alternately({"exact": lambda: exact(x[:few]), "every pair": lambda: every_pair(x[:few])}, rounds)
    truth = mean_cosine(n, torch.nn.functional.normalize(x.double()).sum(dim=0).numpy())
    rows, off = [], {"exact": exact(x) - truth}
    for name, pairs in (("1,000 pairs", 1000), ("100,000 pairs", 100_000)):
        off[name] = sampled_cosine(kept, pairs).value - truth
        rows.append(
            Row(
                f"mean cosine of all {n * (n - 1) / 2:.0e} pairs over {name} sampled",
                ratio(spent["exact"], spent[name]),
                None,
                f"{format_seconds(median(spent['exact']))}, off by {abs(off['exact']):.0e}",
                f"{format_seconds(median(spent[name]))}, off by {abs(off[name]):.0e} of {format_number(truth)}",
            ).to_dict()
        )
    off["every pair"] = exact(x[:few]) - every_pair(x[:few])
    rows.append(
        Row(
            f"mean cosine over the matrix of all pairs, n = {few:,}",
            ratio(small["exact"], small["every pair"]),
            1.0,
            f"{format_seconds(median(small['exact']))}, same to {abs(off['every pair']):.0e}",
            format_seconds(median(small["every pair"])),
        ).to_dict()
    )
    return {"rows": rows, "mean_cosine": truth, "off_by": off}


def anisotropic_vectors(n: int, dim: int) -> Tensor:
    """Return vectors that share a direction, one in a hundred of them 150 times as long."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, dim)) + 0.5 * rng.standard_normal(dim)
    x[::100] *= 150
    return torch.from_numpy(x.astype(np.float32))


if __name__ == "__main__":
    run_from_command_line(run, __doc__, n=100_000, dim=384, few=4000, rounds=7)
