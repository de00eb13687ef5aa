"""Differences on their strongest directions, about the point of no difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SHOWN = 4
MEAN = 0
"""The number under which a class's mean stands among its pairs, which count from 1."""


def plane(differences: Mapping[str, Array]) -> tuple[list[dict[str, Any]], list[float]]:
    """Return d1 to d4 of every difference and every class's mean, and the axes' shares of all squared length.

    Axes go through 0, not through the mean of all: 0 is where both sentences of a pair would be the same.
    Each axis points the way in which its largest loading is positive, so that it does not flip by itself.
    """
    every = np.concatenate(list(differences.values()))
    _, values, axes = np.linalg.svd(every, full_matrices=False)
    total = float(np.square(values).sum())
    missing = SHOWN - len(axes[:SHOWN])
    axes = np.vstack([axes[:SHOWN], np.zeros((missing, every.shape[1]))])
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.where(axes[np.arange(SHOWN), largest] < 0, -1.0, 1.0)[:, None]
    names = [f"d{number}" for number in range(1, SHOWN + 1)]
    rows: list[dict[str, Any]] = []
    for name, d in differences.items():
        places = (np.vstack([d.mean(axis=0), d]) @ axes.T).tolist()
        rows += [
            {"class": name, "pair": pair, **dict(zip(names, place, strict=True))}
            for pair, place in enumerate(places, MEAN)
        ]
    shares = np.append(np.square(values[:SHOWN]), np.zeros(missing))
    return rows, (shares / total if total > 0 else np.full(SHOWN, np.nan)).tolist()
