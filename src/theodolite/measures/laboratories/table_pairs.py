"""Pairs of rows of a model's tables: dot product, cosine, distance and largest difference, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Vectors = NDArray[np.floating]
Numbers = NDArray[np.float64]
CITATION = "Luisto 2024 (bert-spaces), 4.2"


@formula(
    "pair/dot",
    "weights.dot",
    definition="x · y of two rows of a model's tables.",
    cost="exact over all pairs, in blocks; float64",
    citation=CITATION,
)
def dots(left: Vectors, right: Vectors) -> Numbers:
    """Return x · y of corresponding rows. (pairs, dim) twice -> (pairs,)

    >>> dots(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([11.])
    """
    return np.asarray(np.einsum("pd,pd->p", left.astype(np.float64), right.astype(np.float64)))


@formula(
    "pair/cosine",
    "weights.cosine",
    definition="x · y/(|x| |y|) of two rows of a model's tables; undefined if either is zero.",
    cost="exact over all pairs, in blocks; float64",
    citation=CITATION,
)
def cosines(left: Vectors, right: Vectors) -> Numbers:
    """Return the cosines of corresponding rows, NaN for a zero vector. (pairs, dim) twice -> (pairs,)

    >>> cosines(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[6.0, 8.0], [1.0, 0.0]]))
    array([ 1., nan])
    """
    lengths = norms(left) * norms(right)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(lengths > 0, dots(left, right) / lengths, np.nan)
    return np.clip(found, -1.0, 1.0)


@formula(
    "pair/distance",
    "weights.distance",
    definition="|x - y| of two rows of a model's tables.",
    cost="over all pairs in blocks as sqrt(|x|^2 + |y|^2 - 2 x · y) in float64, about the mean; "
    "listed pairs by subtraction",
    citation=CITATION,
)
def distances(left: Vectors, right: Vectors) -> Numbers:
    """Return |x - y| of corresponding rows. (pairs, dim) twice -> (pairs,)

    >>> distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]))
    array([5.])
    """
    return norms(left.astype(np.float64) - right.astype(np.float64))


@formula(
    "pair/largest-difference",
    "weights.largest_difference",
    definition="max_i |x_i - y_i| of two rows of a model's tables: the l-infinity distance.",
    cost="for listed pairs",
    citation="Luisto 2024 (bert-spaces), 4.2.5",
)
def largest_differences(left: Vectors, right: Vectors) -> Numbers:
    """Return max_i |x_i - y_i| of corresponding rows. (pairs, dim) twice -> (pairs,)

    >>> largest_differences(np.array([[0.0, 0.0]]), np.array([[3.0, -4.0]]))
    array([4.])
    """
    apart: Numbers = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return np.asarray(apart.max(axis=1, initial=0.0))


def norms(vectors: Vectors) -> Numbers:
    """Return the Euclidean norm of each row. (rows, dim) -> (rows,)"""
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=1))


METRICS = {"dot": dots, "cosine": cosines, "distance": distances}
