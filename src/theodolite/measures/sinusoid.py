"""Positions without weights: sinusoids added to the input, and the turns of queries and keys (RoPE)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
BASE = 10_000.0


@formula(
    "positions/sinusoid",
    "sinusoid.value",
    definition="Coordinate k of position n is sin(n / 10000^(2 floor(k/2) / d)) for even k, cos of the same for "
    "odd k: a sine and a cosine share each frequency, so cosines depend on the distance of two positions alone.",
    cost="exact",
    citation="Vaswani et al. 2017, section 3.5",
)
def sinusoidal(positions: int, dim: int) -> Array:
    """Return the encodings of Vaswani et al. (positions, dim)

    >>> sinusoidal(2, 4).round(3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.841, 0.54, 0.01, 1.0]]
    """
    return _waves(positions, dim, 2 * (np.arange(dim) // 2) / dim)


@formula(
    "positions/sinusoid-2k",
    "sinusoid.value_2k",
    definition="The same with the exponent 2 k / d, as the thesis prints it: no two coordinates share a "
    "frequency, so cosines depend on more than the distance; and half of the frequencies are below 1/10000.",
    cost="exact",
    citation="bert-spaces, section 3.2.4, as printed",
)
def sinusoidal_as_printed(positions: int, dim: int) -> Array:
    """Return the encodings by the thesis' formula, for comparison. (positions, dim)"""
    return _waves(positions, dim, 2 * np.arange(dim) / dim)


@formula(
    "positions/rotary-similarity",
    "position_rotary.similarity",
    definition="Mean over the rotary frequencies of cos(k theta_j): the cosine between a vector with equal weight "
    "in every rotated plane and itself turned by k positions.",
    cost="exact; from the model's own frequencies, scaling included",
    citation="after Su et al. 2021, RoFormer, section 3.4.3 (there a bound)",
)
def rotary_similarity(frequencies: Array, distances: Array) -> Array:
    """Return how alike rotation leaves two positions at each distance. (planes,), (n,) -> (n,)

    >>> rotary_similarity(np.array([np.pi, 0.0]), np.array([0.0, 1.0, 2.0])).round(9).tolist()
    [1.0, 0.0, 1.0]
    """
    return np.asarray(np.cos(np.outer(distances, frequencies)).mean(axis=1))


def _waves(positions: int, dim: int, exponents: Array) -> Array:
    angles = np.arange(positions)[:, None] / BASE**exponents
    return np.asarray(np.where(np.arange(dim) % 2 == 0, np.sin(angles), np.cos(angles)))
