"""Paths through the layers: how a token's state moves and turns, and where two states part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]
THESIS = "Luisto 2024, section 4.3"


@formula(
    "path/step",
    "trace.step",
    definition="|y - x| of the states x, y of one token at consecutive layers.",
    cost="exact; dim",
    citation=THESIS,
)
def step(x: Floats, y: Floats) -> Floats:
    """Return |y - x|. (..., dim) twice -> (...)

    >>> float(step(np.array([3.0, 0.0]), np.array([0.0, 4.0])))
    5.0
    """
    return _norm(y - x)


@formula(
    "path/radial",
    "trace.radial",
    definition="|y| - |x|: the part of a step that moves away from the origin; radial^2 + tangential^2 = step^2.",
    cost="exact; dim",
    citation=THESIS,
)
def radial(x: Floats, y: Floats) -> Floats:
    """Return |y| - |x|, negative towards the origin. (..., dim) twice -> (...)

    The projection of the step on x is different: it treats a rotation about the origin as a step inwards.

    >>> float(radial(np.array([3.0, 0.0]), np.array([0.0, 3.0])))
    0.0
    """
    return _norm(y) - _norm(x)


@formula(
    "path/tangential",
    "trace.tangential",
    definition="sqrt(|x| |y|) |x/|x| - y/|y||: the part of a step that rotates about the origin (law of cosines).",
    cost="exact; dim",
    citation=THESIS,
)
def tangential(x: Floats, y: Floats) -> Floats:
    """Return sqrt(|x| |y|) |x/|x| - y/|y||; 0 if x or y is zero. (..., dim) twice -> (...)

    >>> float(tangential(np.array([3.0, 0.0]), np.array([6.0, 0.0])))
    0.0
    """
    lengths = np.sqrt(_norm(x) * _norm(y))
    return np.where(lengths > 0, lengths * _chord(x, y), 0.0)[()]


@formula(
    "path/cosine",
    "trace.cosine",
    "trace.cosine_first",
    "trace.cosine_last",
    definition="cos(x, y) of one token's states at two layers: this layer and the previous, first or last one.",
    cost="exact; dim",
    citation=THESIS,
)
def cosine(x: Floats, y: Floats) -> Floats:
    """Return cos(x, y), NaN where one is zero. (..., dim) twice -> (...)

    >>> round(float(cosine(np.array([1.0, 1.0]), np.array([2.0, 0.0]))), 6)
    0.707107
    """
    found: Floats = (_unit(x) * _unit(y)).sum(-1).clip(-1.0, 1.0)
    return found


@formula(
    "path/angle",
    "trace.angle",
    definition="Angle between x and y in degrees: 2 atan2(|u - v|, |u + v|) of the unit vectors u, v.",
    cost="exact; dim",
    citation="Kahan 2006 (the arc cosine loses half of the digits of a small angle)",
)
def angle(x: Floats, y: Floats) -> Floats:
    """Return the angle in degrees, NaN where one vector is zero. (..., dim) twice -> (...)

    >>> round(float(angle(np.array([1.0, 0.0]), np.array([0.0, 2.0]))), 9)
    90.0
    """
    found: Floats = np.degrees(2 * np.arctan2(_chord(x, y), _norm(_unit(x) + _unit(y))))
    return found


@formula(
    "path/shared-direction",
    "trace.shared_direction",
    definition="Mean cosine between the steps of all pairs of distinct tokens at one layer: 1 if all move in "
    "parallel.",
    cost="exact; tokens dim",
    citation=f"{THESIS}, whose picture suggests it",
)
def shared_direction(steps: Floats) -> float:
    """Return the mean cosine of all pairs of non-zero steps; NaN for fewer than two. (tokens, dim)

    >>> shared_direction(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    0.0
    """
    units = _unit(steps[(steps != 0).any(-1)])
    n = len(units)
    if n < 2:
        return float("nan")
    total = units.sum(0)
    return float((total @ total - n) / (n * (n - 1)))


def _norm(x: Floats) -> Floats:
    # Scaled by the largest coordinate, so that no square overflows or underflows.
    largest = np.abs(x).max(-1, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    found: Floats = largest * np.sqrt(np.square(x / scale[..., None]).sum(-1))
    return found


def _unit(x: Floats) -> Floats:
    lengths = _norm(x)[..., None]
    found: Floats = np.divide(x, lengths, out=np.full_like(x, np.nan), where=lengths > 0)
    return found


def _chord(x: Floats, y: Floats) -> Floats:
    apart = _unit(x) - _unit(y)
    return np.where(np.isnan(apart).any(-1), np.nan, np.sqrt(np.square(apart).sum(-1)))[()]


PARTED_SHARE = 0.05
"""Two states have parted if at least this share of random pairs of different tokens is closer."""


@formula(
    "parting/nearer",
    "trace.nearer_different",
    "trace.nearer_same",
    definition="Share of the reference's pairs (of different tokens; of one token in two contexts) that are "
    "closer to each other than these two states.",
    cost="from the sorted distances of the reference",
    citation="Theodolite; the question of Luisto 2024, section 4.3",
)
def share_nearer(sorted_distances: NDArray[np.float64], distance: float) -> float:
    """Return the share of the reference's pairs with a smaller distance; NaN without pairs. (pairs,)

    >>> share_nearer(np.array([1.0, 2.0, 3.0, 4.0]), 2.5)
    0.5
    """
    if not len(sorted_distances) or np.isnan(distance):
        return float("nan")
    return float(np.searchsorted(sorted_distances, distance, side="left") / len(sorted_distances))


@formula(
    "parting/layer",
    "trace.parted_at",
    "trace.parted_for_good",
    definition="The first layer at which nearer_different is at least 0.05, and the first layer from which on it "
    "always is.",
    cost="from nearer_different",
    citation="Theodolite; the question of Luisto 2024, section 4.3",
)
def parted_layers(layers: NDArray[np.int64], parted: NDArray[np.bool_]) -> tuple[int | None, int | None]:
    """Return the first parted layer, and the first from which on all are parted; None if none is. Both (layers,)

    >>> parted_layers(np.arange(5), np.array([False, True, False, True, True]))
    (1, 3)
    """
    if not parted.any():
        return None, None
    together = np.flatnonzero(~parted)
    stays = int(together[-1]) + 1 if len(together) else 0
    return int(layers[parted.argmax()]), int(layers[stays]) if stays < len(layers) else None
