"""The fixed point of a block in norm: how long a bias makes what leaves it as long as what enters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from theodolite.measures.formula import formula

CLOSE = 1e-5
"""Relative, of squared norms; half of it in norm. A float32 block is repeatable to about 1e-7."""
STEPS = 40


class Bracket(NamedTuple):
    """Two neighbouring bias norms between which the gap out^2 - in^2 changes its sign."""

    low: float
    high: float
    gap_low: float
    gap_high: float

    @property
    def attracting(self) -> bool:
        """Whether a shorter input grows and a longer one shrinks: fed to itself, the block would come here."""
        return self.gap_low > 0


def brackets(norms: Sequence[float], gaps: Sequence[float]) -> list[Bracket]:
    """Return every change of sign of the gaps over rising norms; one that is exactly 0 ends the step before it.

    >>> [(b.low, b.high, b.attracting) for b in brackets([0, 1, 2, 3], [4.0, 1.0, -2.0, 5.0])]
    [(1, 2, True), (2, 3, False)]
    """
    steps = pairwise(zip(norms, gaps, strict=True))
    return [Bracket(a, b, u, v) for (a, u), (b, v) in steps if u * v < 0 or (v == 0 and u != 0)]


@formula(
    "fixed-point/bias-norm",
    "fixed_points.n_star",
    definition="Bias norm N at which what leaves the block is as long as what enters it: E|T(x + b)| = E|x + b|, "
    "|b| = N (quantity mean_norm), or |E T(x + b)| = |E(x + b)| (norm_of_mean). Of several, the first where the "
    "gap falls, else the first.",
    cost="a few forward passes of one block",
    citation="Godey et al. 2023, section 4.2",
    error="the standard deviation over runs, each of a seed and a direction",
)
def fixed_point(gap: Callable[[float], float], bracket: Bracket, scale: Callable[[float], float]) -> float:
    """Return where the gap is 0 within a bracket, to CLOSE of `scale`, by the Illinois rule on squared norms.

    in^2 is N^2 + |x|^2 on average, so a gap of squares is nearly straight in N^2 and few steps are enough.

    >>> found = fixed_point(lambda n: 9 - n * n, Bracket(0, 5, 9.0, -16.0), lambda n: n * n)
    >>> round(found, 12)
    3.0
    """
    low, high, left, right = bracket.low**2, bracket.high**2, bracket.gap_low, bracket.gap_high
    square, side = high, 0
    for _ in range(STEPS):
        square = (low * right - high * left) / (right - left)
        here = gap(math.sqrt(square))
        if abs(here) <= CLOSE * scale(math.sqrt(square)):
            break
        if here * right > 0:
            high, right = square, here
            left, side = (left / 2, -1) if side == -1 else (left, -1)
        else:
            low, left = square, here
            right, side = (right / 2, 1) if side == 1 else (right, 1)
    return math.sqrt(square)


@formula(
    "fixed-point/post-ln",
    "fixed_points.closed_form",
    definition="sqrt(|gamma|^2 + |beta|^2 - E|x|^2), gamma and beta of the norm that closes the block; at "
    "initialisation |gamma|^2 + |beta|^2 is d, whatever comes in. NaN where x alone is longer.",
    cost="none",
    citation="Theodolite",
)
def post_ln_fixed_point(leaving: float, mean_square: float) -> float:
    """Return the bias norm whose inputs are as long as a layer norm's output. leaving: |gamma|^2 + |beta|^2

    >>> post_ln_fixed_point(25.0, 9.0)
    4.0
    """
    return math.sqrt(leaving - mean_square) if leaving >= mean_square else math.nan
