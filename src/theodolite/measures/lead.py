"""Which of two series over training steps comes first: half of the way, and correlations of lagged changes.

Checkpoints are few, so both say how little they know: half of the way lies between two checkpoints, and two series
are put in order only if those stretches do not overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]
Z = 1.96
FEWEST = 3
"""Steps that a way needs: with two, half of every way lies between them."""
PAIRS = 6
"""Pairs of changes below which the interval of a correlation covers nearly everything."""
WANDERING = 3.0
"""A series that goes so many times its way back and forth before it is there has no half of it."""


class Half(NamedTuple):
    """Between which steps a series covers half of its way; NaN for a reason where that cannot be told."""

    step: float  # interpolated
    low: float
    high: float
    way: float  # to where it is farthest from its first value
    peak: float  # the step at which it is
    reason: str = ""


class Lagged(NamedTuple):
    """The correlation of one series' changes with another's so many steps later, with a 95% interval."""

    coefficient: float
    low: float
    high: float
    pairs: int
    reason: str = ""


@formula(
    "lead/half-way",
    "leads.drift_half",
    "leads.sharp_half",
    definition="First step at which a series has come half of the way from its value at the first step to the one "
    "farthest from it (at _peak), interpolated between the checkpoints on either side (_low, _high): where it "
    "rises and falls, the rise counts. Undefined for fewer than three steps, for a way within 1.96 standard "
    "errors, and for a series whose changes sum to more than three times its way before it is there.",
    cost="from the table",
    citation="Theodolite",
)
def half_way(steps: Floats, values: Floats, errors: Floats | None = None) -> Half:
    """Return where a series has covered half of its way. (steps,) each; places with a NaN are left out

    >>> half_way(np.array([0.0, 100.0, 1000.0, 2000.0]), np.array([1.0, 2.0, 5.0, 4.5]))[:5]
    (400.0, 100.0, 1000.0, 4.0, 1000.0)
    """
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) < FEWEST:
        return _without("fewer than three steps")
    end = int(np.argmax(np.abs(values - values[0])))
    way = float(values[end] - values[0])
    if way == 0:
        return _without("it stays where it began")
    if errors is not None:
        noise = Z * float(np.sqrt(np.nansum(np.square(errors[known][[0, end]]))))
        if abs(way) <= noise:
            return _without("it stays where it began, within its error")
    if np.abs(np.diff(values[: end + 1])).sum() > WANDERING * abs(way):
        return _without("it goes back and forth")
    covered = (values - values[0]) / way
    at = int(np.argmax(covered >= 0.5))
    part = (0.5 - covered[at - 1]) / (covered[at] - covered[at - 1])
    low, high = float(steps[at - 1]), float(steps[at])
    return Half(low + float(part) * (high - low), low, high, way, float(steps[end]))


def order(first: Half, second: Half) -> str:
    """Return "before", "after", or "undecided" where the two stretches overlap or one is not known.

    >>> early, late = Half(5, 1, 10, way=1.0, peak=40), Half(20, 10, 30, way=1.0, peak=40)
    >>> order(early, late), order(early, early)
    ('before', 'undecided')
    """
    if first.high <= second.low:
        return "before"
    return "after" if second.high <= first.low else "undecided"


@formula(
    "lead/lagged-changes",
    "leads.lag_minus",
    "leads.lag_none",
    "leads.lag_plus",
    definition="Spearman's correlation of the change of one series from each step to the next with the change of "
    "the other one step earlier (minus), at the same step (none), one later (plus); 95% interval by Fisher's z "
    "with variance 1.06/(pairs - 3), which takes steps for independent. Undefined for fewer than six pairs.",
    cost="from the table",
    citation="Fieller, Hartley and Pearson 1957; Theodolite",
)
def lagged(first: Floats, second: Floats, lag: int) -> Lagged:
    """Return the correlation of changes of `first` with those of `second` `lag` steps later. (steps,) each

    >>> rising = np.array([0.0, 1, 3, 4, 8, 9, 11, 18, 19])
    >>> found = lagged(rising, np.roll(rising, 1), 1)  # the second does a step later what the first did
    >>> found.coefficient, found.pairs
    (1.0, 7)
    """
    changes, others = np.diff(first), np.diff(second)
    if lag > 0:
        changes, others = changes[:-lag], others[lag:]
    elif lag < 0:
        changes, others = changes[-lag:], others[:lag]
    known = np.isfinite(changes) & np.isfinite(others)
    changes, others = changes[known], others[known]
    count = len(changes)
    if count < PAIRS:
        return _no_lag(count, "fewer than six pairs of changes")
    if np.ptp(changes) == 0 or np.ptp(others) == 0:
        return _no_lag(count, "one of the two changes equally at every step")
    found = float(stats.spearmanr(changes, others).statistic)
    reach = Z * np.sqrt(1.06 / (count - 3))
    middle = np.arctanh(np.clip(found, -1 + 1e-12, 1 - 1e-12))
    return Lagged(found, float(np.tanh(middle - reach)), float(np.tanh(middle + reach)), count)


def _without(reason: str) -> Half:
    nan = float("nan")
    return Half(nan, nan, nan, nan, nan, reason)


def _no_lag(count: int, reason: str) -> Lagged:
    return Lagged(float("nan"), float("nan"), float("nan"), count, reason)
