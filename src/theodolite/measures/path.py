"""Paths: how a vector moves from layer to layer, away from the origin and around it."""

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
    """Return the length of each step. (..., dim) twice -> (...)

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
    """Return the radial part of each step, negative towards the origin. (..., dim) twice -> (...)

    Not the projection of the step on x, which calls a turn about the origin a step inwards.

    >>> float(radial(np.array([3.0, 0.0]), np.array([0.0, 3.0])))
    0.0
    """
    return _norm(y) - _norm(x)


@formula(
    "path/tangential",
    "trace.tangential",
    definition="sqrt(|x| |y|) |x/|x| - y/|y||: the part of a step that turns about the origin (law of cosines).",
    cost="exact; dim",
    citation=THESIS,
)
def tangential(x: Floats, y: Floats) -> Floats:
    """Return the part of each step that turns; 0 to or from a zero vector, where all is radial.

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
    definition="cos(x, y) of one token's states at two layers: this and the one before, the first, the last.",
    cost="exact; dim",
    citation=THESIS,
)
def cosine(x: Floats, y: Floats) -> Floats:
    """Return the cosine of each pair, NaN where one is zero. (..., dim) twice -> (...)

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
    """Return the angle of each pair in degrees, NaN where one is zero. (..., dim) twice -> (...)

    >>> round(float(angle(np.array([1.0, 0.0]), np.array([0.0, 2.0]))), 9)
    90.0
    """
    found: Floats = np.degrees(2 * np.arctan2(_chord(x, y), _norm(_unit(x) + _unit(y))))
    return found


@formula(
    "path/shared-direction",
    "trace.shared_direction",
    definition="Mean cosine between the steps of all pairs of distinct tokens at one layer: 1 if all move alike.",
    cost="exact; tokens dim",
    citation=f"{THESIS}, whose picture suggests it",
)
def shared_direction(steps: Floats) -> float:
    """Return the mean cosine of steps, those of length 0 left out; NaN for fewer than two. (tokens, dim)

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
    # By the largest coordinate, so that no square overflows or vanishes.
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
