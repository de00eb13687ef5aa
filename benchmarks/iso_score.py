"""IsoScore beside the reference package: the same answer, and the time from vectors to the score.

    python -m benchmarks.iso_score

Ours goes through the survey's scatter matrix, batch by batch, and its eigenvalues; the package takes all vectors
at once. 10,000 vectors of 768 coordinates in float32, axes of unequal length; once more with one coordinate at
3,000. Both run in one process in turn. The package wants no library of its own, so it is unpacked beside the
peers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.alone import main
from benchmarks.row import Row, seconds
from benchmarks.turns import middle, ratio, take_turns
from benchmarks.vectors import rows_of
from theodolite.measures.spectrum import eigenvalues, iso_score
from theodolite.statistics.frame import Frame
from theodolite.statistics.scatter import Scatter

PACKAGE, VERSION = "IsoScore", "2.0.1"
Vectors = NDArray[np.float32]


def ours(x: Vectors) -> float:
    """Return IsoScore as a survey makes it: about a median of some rows, a batch at a time."""
    vectors = torch.from_numpy(x)
    frame = Frame(vectors[:2048].median(dim=0).values)
    scatter = Scatter(frame)
    for rows in rows_of(vectors, frame):
        scatter.update(rows)
    return iso_score(eigenvalues(scatter.covariance((0,))[1].numpy()))


def published(x: Vectors) -> float:
    """Return IsoScore step by step as Rudman et al. 2022 define it, in float64: the oracle, and a stand-in."""
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
    """Time both in turn and ask all for their answers."""
    theirs: Callable[[Vectors], float] = published if quick else reference()
    name = "the published steps" if quick else f"{PACKAGE} {VERSION}"
    if quick:
        n, dim, rounds = 500, 16, 3
    x = cloud(n, dim)
    far = x.copy()
    far[:, 5] += 3000
    spent = take_turns({"ours": lambda: ours(x), "theirs": lambda: theirs(x)}, rounds)
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
                seconds(middle(spent["ours"])),
                seconds(middle(spent["theirs"])),
            ).told()
        ],
        "answers": answers,
        "ours_off_by": max(abs(each["ours"] - each["published"]) for each in answers.values()),
        "theirs_off_by": max(abs(each["theirs"] - each["published"]) for each in answers.values()),
    }


def cloud(n: int, dim: int) -> Vectors:
    """Return Gaussian vectors whose axes shrink from 1 to a tenth, turned at random."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return np.asarray((rng.standard_normal((n, dim)) * np.linspace(1, 0.1, dim)) @ turn, dtype=np.float32)


if __name__ == "__main__":
    main(run, __doc__, n=10_000, dim=768, rounds=5)
