"""What pairs that mean nothing would give: classes of sentences put together at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DRAWS, BLOCK = 1_000, 50


def random_cosines(vectors: Array, pairs: int, *, seed: int = 0, draws: int = DRAWS) -> Array:
    """Return cosines of the mean differences of two classes of `pairs` random pairs each. (draws,)

    vectors: (sentences, dim), the two sentences of a pair one after the other; both of a random pair come from
    different pairs. Empty where there are fewer than two pairs.
    """
    written = len(vectors) // 2
    if written < 2:
        return np.empty(0)
    rng = np.random.default_rng(seed)
    centred = vectors - vectors.mean(axis=0)
    found = []
    for first in range(0, draws, BLOCK):
        shape = (min(BLOCK, draws - first), 2, pairs)
        one = rng.integers(written, size=shape)
        other = (one + rng.integers(1, written, size=shape)) % written
        sides = rng.integers(2, size=(2, *shape))
        mean = (centred[2 * other + sides[0]] - centred[2 * one + sides[1]]).mean(axis=2)
        lengths = np.linalg.norm(mean, axis=2).prod(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.einsum("rd,rd->r", mean[:, 0], mean[:, 1]) / lengths)
    cosines: Array = np.concatenate(found)
    return np.asarray(cosines[np.isfinite(cosines)])


def histogram(cosines: Array, bins: int = 40) -> list[dict[str, float]]:
    """Return low, high, count over the whole of -1 to 1."""
    counts, edges = np.histogram(cosines, bins=bins, range=(-1.0, 1.0))
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"low": low, "high": high, "count": count} for low, high, count in rows]
