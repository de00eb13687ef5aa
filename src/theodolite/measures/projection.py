"""Principal components of a few vectors, with a sign that does not depend on the machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]


class Projection(NamedTuple):
    """Vectors on their first principal components, and the share of their variance that each shows."""

    points: Floats  # (vectors, components)
    shares: Floats  # (components,), NaN where all vectors are one


@formula(
    "pca/shares",
    "trace.share",
    "groups.share",
    definition="Variance along a principal component over the variance of everything projected.",
    cost="exact; one singular value decomposition of the vectors",
    citation="Hotelling 1933",
)
def principal(vectors: Floats, components: int = 3) -> Projection:
    """Project vectors on their principal components, centred at their mean. (vectors, dim)

    Each component points to where its largest coordinate is positive. Components beyond the rank are 0.

    >>> found = principal(np.array([[0.0, 1.0], [0.0, 3.0]]), 2)
    >>> found.points.round(9).tolist(), found.shares.round(9).tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [1.0, 0.0])
    """
    centred = vectors - vectors.mean(0)
    _, scales, axes = np.linalg.svd(centred, full_matrices=False)
    scales, axes = scales[:components], axes[:components]
    largest = np.abs(axes).argmax(1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    points = np.zeros((len(vectors), components))
    points[:, : len(axes)] = centred @ axes.T
    total = np.square(centred).sum()
    shares = np.zeros(components) if total > 0 else np.full(components, np.nan)
    if total > 0:
        shares[: len(scales)] = np.square(scales) / total
    return Projection(points, shares)
