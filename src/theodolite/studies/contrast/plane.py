"""Differences on the plane of their two strongest directions, about the point of no difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MEAN = 0
"""The number under which a class's mean stands among its pairs, which count from 1."""


def plane(differences: Mapping[str, Array]) -> tuple[list[dict[str, Any]], list[float]]:
    """Return x and y of every difference and every class's mean, and the axes' shares of all squared length.

    Axes go through 0, not through the mean of all: 0 is where both sentences of a pair would be the same.
    Each axis points the way in which its largest loading is positive, so that it does not flip by itself.
    """
    every = np.concatenate(list(differences.values()))
    _, values, axes = np.linalg.svd(every, full_matrices=False)
    total = float(np.square(values).sum())
    axes = np.vstack([axes[:2], np.zeros((2 - len(axes[:2]), every.shape[1]))])
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.where(axes[[0, 1], largest] < 0, -1.0, 1.0)[:, None]
    rows: list[dict[str, Any]] = []
    for name, d in differences.items():
        places = np.vstack([d.mean(axis=0), d]) @ axes.T
        rows += [
            {"class": name, "pair": pair, "x": float(x), "y": float(y)} for pair, (x, y) in enumerate(places, MEAN)
        ]
    shares = [float(value**2 / total) if total > 0 else float("nan") for value in values[:2]]
    return rows, [*shares, *[0.0] * (2 - len(shares))]
