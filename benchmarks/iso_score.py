"""IsoScore compared with the reference package: equal results, and the time from vectors to the score.

    python -m benchmarks.iso_score

Ours uses the scatter matrix of a survey, batch by batch, and its eigenvalues. The package reads all vectors at
once. The data are 10,000 vectors of 768 coordinates in float32 with axes of unequal length, and the same with one
coordinate at 3,000. Both run alternately in one process. The package has no dependencies that we lack, so it is
unpacked into its own folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.results import Row, format_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import ratio, time_alternately
from benchmarks.workload import split_batches
from theodolite.measures.spectrum import eigenvalues, iso_score
from theodolite.statistics.frame import Frame
from theodolite.statistics.scatter import Scatter

PACKAGE, VERSION = "IsoScore", "2.0.1"
Vectors = NDArray[np.float32]


def ours(x: Vectors) -> float:
    """Return IsoScore as in a survey: centred at the median of some rows, batch by batch."""
    vectors = torch.from_numpy(x)
    frame = Frame(vectors[:2048].median(dim=0).values)
    scatter = Scatter(frame)
    for rows in split_batches(vectors, frame):
        scatter.update(rows)
    return iso_score(eigenvalues(scatter.covariance((0,))[1].numpy()))


def published(x: Vectors) -> float:
    """Return IsoScore step by step as Rudman et al. 2022 define it, in float64: the reference for both."""
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    n = x.shape[1]
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    variances = (centred @ axes.T).var(axis=0, ddof=1)
    normed = np.sqrt(n) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(normed - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    dimensions = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n
    return float((dimensions - 1) / (n - 1))


def reference() -> Callable[[Vectors], float]:
    """Return the package's own function."""
    with peers.unpacked(PACKAGE, VERSION):
        from IsoScore.IsoScore import IsoScore  # type: ignore[import-not-found]
    warnings.filterwarnings("ignore", module="IsoScore")  # it copies a tensor in a way that torch advises against
    return lambda x: float(IsoScore(torch.from_numpy(x)))


def run(quick: bool = False, n: int = 10_000, dim: int = 768, rounds: int = 5) -> dict[str, Any]:
    """Time both alternately and compare their results."""
    theirs: Callable[[Vectors], float] = published if quick else reference()
    name = "the published steps" if quick else f"{PACKAGE} {VERSION}"
    if quick:
        n, dim, rounds = 500, 16, 3
    x = cloud(n, dim)
    far = x.copy()
    far[:, 5] += 3000
    spent = time_alternately({"ours": lambda: ours(x), "theirs": lambda: theirs(x)}, rounds)
    answers = {
        case: {"ours": ours(each), "theirs": theirs(each), "published": published(each)}
        for case, each in (("plain", x), ("one coordinate at 3,000", far))
    }
    return {
        "rows": [
            Row(
                f"IsoScore over {name}, {n:,} x {dim}",
                ratio(spent["ours"], spent["theirs"]),
                1.0,
                format_seconds(median(spent["ours"])),
                format_seconds(median(spent["theirs"])),
            ).to_dict()
        ],
        "answers": answers,
        "ours_off_by": max(abs(each["ours"] - each["published"]) for each in answers.values()),
        "theirs_off_by": max(abs(each["theirs"] - each["published"]) for each in answers.values()),
    }


def cloud(n: int, dim: int) -> Vectors:
    """Return Gaussian vectors whose axes shrink from 1 to 0.1, with a random rotation."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return np.asarray((rng.standard_normal((n, dim)) * np.linspace(1, 0.1, dim)) @ turn, dtype=np.float32)


if __name__ == "__main__":
    run_from_command_line(run, __doc__, n=10_000, dim=768, rounds=5)
