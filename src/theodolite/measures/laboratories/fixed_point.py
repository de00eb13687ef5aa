"""The fixed point of a block in norm: the bias norm at which output and input of the block have equal norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from theodolite.measures.formula import formula

TOLERANCE = 1e-5
"""Relative tolerance of squared norms; half of it in norm. A float32 block is repeatable to about 1e-7."""
MAX_STEPS = 40


class Bracket(NamedTuple):
    """Two adjacent bias norms between which the gap out^2 - in^2 changes its sign."""

    low: float
    high: float
    gap_low: float
    gap_high: float

    @property
    def attracting(self) -> bool:
        """Whether shorter inputs grow and longer ones shrink, so that repeated application converges here."""
        return self.gap_low > 0


def find_brackets(norms: Sequence[float], gaps: Sequence[float]) -> list[Bracket]:
    """Return every sign change of the gaps over increasing norms; a gap of exactly 0 ends the step before it.

    >>> [(b.low, b.high, b.attracting) for b in find_brackets([0, 1, 2, 3], [4.0, 1.0, -2.0, 5.0])]
    [(1, 2, True), (2, 3, False)]
    """
    steps = pairwise(zip(norms, gaps, strict=True))
    return [Bracket(a, b, u, v) for (a, u), (b, v) in steps if u * v < 0 or (v == 0 and u != 0)]


@formula(
    "fixed-point/bias-norm",
    "fixed_points.n_star",
    definition="Bias norm N at which output and input of the block have equal norms: E|T(x + b)| = E|x + b|, "
    "|b| = N (quantity mean_norm), or |E T(x + b)| = |E(x + b)| (norm_of_mean). Of several, the first where the "
    "gap decreases, else the first.",
    cost="a few forward passes of one block",
    citation="Godey et al. 2023, section 4.2",
    error="standard deviation over runs, each with its own seed and direction",
)
def fixed_point(gap: Callable[[float], float], bracket: Bracket, scale: Callable[[float], float]) -> float:
    """Return the zero of the gap within a bracket, to TOLERANCE of `scale`, by the Illinois rule on squared norms.

    in^2 is N^2 + |x|^2 on average, so a gap of squares is nearly linear in N^2 and few steps suffice.

    >>> found = fixed_point(lambda n: 9 - n * n, Bracket(0, 5, 9.0, -16.0), lambda n: n * n)
    >>> round(found, 12)
    3.0
    """
    low, high, left, right = bracket.low**2, bracket.high**2, bracket.gap_low, bracket.gap_high
    square, side = high, 0
    for _ in range(MAX_STEPS):
        square = (low * right - high * left) / (right - left)
        value = gap(math.sqrt(square))
        if abs(value) <= TOLERANCE * scale(math.sqrt(square)):
            break
        if value * right > 0:
            high, right = square, value
            left, side = (left / 2, -1) if side == -1 else (left, -1)
        else:
            low, left = square, value
            right, side = (right / 2, 1) if side == 1 else (right, 1)
    return math.sqrt(square)


@formula(
    "fixed-point/post-ln",
    "fixed_points.closed_form",
    definition="sqrt(|gamma|^2 + |beta|^2 - E|x|^2), with gamma and beta of the norm at the end of the block; at "
    "initialisation |gamma|^2 + |beta|^2 is d for any input. NaN if x is longer.",
    cost="none",
    citation="Theodolite",
)
def post_ln_fixed_point(leaving: float, mean_square: float) -> float:
    """Return the bias norm whose inputs are as long as the output of a layer norm. leaving: |gamma|^2 + |beta|^2

    >>> post_ln_fixed_point(25.0, 9.0)
    4.0
    """
    return math.sqrt(leaving - mean_square) if leaving >= mean_square else math.nan
