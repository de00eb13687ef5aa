"""Axes: from data to page, and where the ticks go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TINY = 1e-300  # what lies below cannot be halved and divided by six without vanishing


@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic map from [low, high] to [start, end]."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return where on the page a value lies."""
        low, high = self._bent(self.low), self._bent(self.high)
        share = (self._bent(max(value, self.low) if self.log else value) - low) / ((high - low) or 1.0)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers within the axis, at most about so many."""
        return _decades(self.low, self.high, most) if self.log else _round_steps(self.low, self.high, most)

    def _bent(self, value: float) -> float:
        return math.log10(value) if self.log else value


def fit(values: Sequence[float], include: Sequence[float], start: float, end: float, log: bool) -> Scale:
    """Return the axis that holds the values, and on a straight axis those to include, ending at round numbers."""
    if log:
        above = [value for value in values if value > 0]
        return Scale(min(above) / 1.15, max(above) * 1.15, start, end, log=True)
    low, high = min((*values, *include)), max((*values, *include))
    if high - low <= TINY:
        room = abs(low) / 2 if abs(low) > TINY else 0.5
        low, high = low - room, high + room
    step = _step(low, high, 6)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)


def whole_ticks(values: Sequence[float], most: int = 9) -> list[float]:
    """Return every k-th whole number from the least to the greatest, with the smallest round k that fits.

    >>> whole_ticks([0, 33])
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    """
    low, high = math.ceil(min(values)), math.floor(max(values))
    step = next(k * 10**p for p in range(12) for k in (1, 2, 5) if (high - low) / (k * 10**p) < most)
    return [float(value) for value in range(-(-low // step) * step, high + 1, step)]


def _step(low: float, high: float, most: int) -> float:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= rough * (1 - 1e-9))


def _round_steps(low: float, high: float, most: int) -> list[float]:
    step = _step(low, high, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(len(powers) / most))
    kinds = (1, 3) if len(powers) <= 3 else (1,)
    marks = [k * 10.0**power for power in powers if power % every == 0 for k in kinds]
    return [value for value in marks if low <= value <= high]
