"""Which of two series over training steps changes first: half-way points and correlations of lagged changes.

Checkpoints are few, so both state their uncertainty: the half-way point is between two checkpoints, and two
series are ordered only if these intervals do not overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]
Z = 1.96
MIN_STEPS = 3
"""Minimum number of steps: with two, every half-way point is between them."""
MIN_PAIRS = 6
"""Minimum number of pairs of changes: with fewer, the interval of a correlation is nearly [-1, 1]."""
MAX_WANDERING = 3.0
"""A series whose changes sum to more than this many times its way has no half-way point."""


class HalfWay(NamedTuple):
    """Between which steps a series covers half of its way; NaN with a reason if undefined."""

    step: float  # interpolated
    low: float
    high: float
    way: float  # difference between the first value and the value farthest from it
    peak: float  # the step of that farthest value
    reason: str = ""


class Lagged(NamedTuple):
    """Correlation of the changes of one series with those of another some steps later, with a 95% interval."""

    coefficient: float
    low: float
    high: float
    pairs: int
    reason: str = ""


@formula(
    "lead/half-way",
    "leads.drift_half",
    "leads.sharp_half",
    definition="First step at which a series has covered half of the way from its first value to the value "
    "farthest from it (at _peak), interpolated between the checkpoints on either side (_low, _high); if it "
    "rises and falls, the rise counts. Undefined for fewer than three steps, for a way within 1.96 standard "
    "errors, and for a series whose changes up to the peak sum to more than three times its way.",
    cost="from the table",
    citation="Theodolite",
)
def half_way(steps: Floats, values: Floats, errors: Floats | None = None) -> HalfWay:
    """Return the step at which a series has covered half of its way. (steps,) each; NaN values are excluded

    >>> half_way(np.array([0.0, 100.0, 1000.0, 2000.0]), np.array([1.0, 2.0, 5.0, 4.5]))[:5]
    (400.0, 100.0, 1000.0, 4.0, 1000.0)
    """
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) < MIN_STEPS:
        return _undefined_half_way("fewer than three steps")
    end = int(np.argmax(np.abs(values - values[0])))
    way = float(values[end] - values[0])
    if way == 0:
        return _undefined_half_way("it stays where it began")
    if errors is not None:
        noise = Z * float(np.sqrt(np.nansum(np.square(errors[known][[0, end]]))))
        if abs(way) <= noise:
            return _undefined_half_way("it stays where it began, within its error")
    if np.abs(np.diff(values[: end + 1])).sum() > MAX_WANDERING * abs(way):
        return _undefined_half_way("it goes back and forth")
    covered = (values - values[0]) / way
    at = int(np.argmax(covered >= 0.5))
    part = (0.5 - covered[at - 1]) / (covered[at] - covered[at - 1])
    low, high = float(steps[at - 1]), float(steps[at])
    return HalfWay(low + float(part) * (high - low), low, high, way, float(steps[end]))


def compare_order(first: HalfWay, second: HalfWay) -> str:
    """Return "before", "after", or "undecided" if the two intervals overlap or one is undefined.

    >>> early, late = HalfWay(5, 1, 10, way=1.0, peak=40), HalfWay(20, 10, 30, way=1.0, peak=40)
    >>> compare_order(early, late), compare_order(early, early)
    ('before', 'undecided')
    """
    if first.high <= second.low:
        return "before"
    return "after" if second.high <= first.low else "undecided"


@formula(
    "lead/direction",
    "leads.order",
    "leads.ratio_way",
    definition="Whether the drift reaches its half-way point before or after the sharpness. Undecided unless the "
    "norm of the mean, or the mean cosine, rises; the ratio of the norm of the mean to the mean norm rises too "
    "and has the same order (it does not rise where all norms grow alike); and attention gets sharper: its "
    "largest weight rises, or its entropy falls.",
    cost="from the table",
    citation="Theodolite",
)
def decide_order(drift: HalfWay, sharp: HalfWay, *, ratio: HalfWay | None, sharper: int) -> tuple[str, str]:
    """Return the order, and the reason if it is undecided although both series have a half-way point.

    ratio: of the norm of the mean to the mean norm; None if the drift is measured by cosines, which have no scale.
    sharper: the sign of the change of the second series as attention gets sharper.

    >>> early, late = HalfWay(5, 1, 10, way=1.0, peak=40), HalfWay(20, 10, 30, way=1.0, peak=40)
    >>> decide_order(early, late, ratio=early, sharper=1)
    ('before', '')
    >>> decide_order(early._replace(way=-1.0), late, ratio=None, sharper=1)
    ('undecided', 'the measure of drift falls')
    """
    if drift.reason or sharp.reason:
        return "undecided", ""
    if drift.way < 0:
        return "undecided", "the measure of drift falls"
    if sharp.way * sharper < 0:
        return "undecided", "attention gets less sharp"
    order = compare_order(drift, sharp)
    if ratio is not None and order != "undecided":
        if ratio.reason or ratio.way < 0:
            return "undecided", "the norm of the mean does not grow relative to the mean norm"
        if compare_order(ratio, sharp) != order:
            return "undecided", "the ratio of the norm of the mean to the mean norm has another order"
    return order, ""


@formula(
    "lead/lagged-changes",
    "leads.lag_minus",
    "leads.lag_none",
    "leads.lag_plus",
    definition="Spearman's correlation of the change of one series from each step to the next with the change of "
    "the other one step earlier (minus), at the same step (none), one later (plus); 95% interval by Fisher's z "
    "with variance 1.06/(pairs - 3), as if steps were independent. Undefined for fewer than six pairs.",
    cost="from the table",
    citation="Fieller, Hartley and Pearson 1957; Theodolite",
)
def lagged_correlation(first: Floats, second: Floats, lag: int) -> Lagged:
    """Return the correlation of changes of `first` with those of `second` `lag` steps later. (steps,) each

    >>> rising = np.array([0.0, 1, 3, 4, 8, 9, 11, 18, 19])
    >>> found = lagged_correlation(rising, np.roll(rising, 1), 1)  # the second follows the first one step later
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
    if count < MIN_PAIRS:
        return _undefined_lag(count, "fewer than six pairs of changes")
    if np.ptp(changes) == 0 or np.ptp(others) == 0:
        return _undefined_lag(count, "one of the two changes equally at every step")
    found = float(stats.spearmanr(changes, others).statistic)
    reach = Z * np.sqrt(1.06 / (count - 3))
    middle = np.arctanh(np.clip(found, -1 + 1e-12, 1 - 1e-12))
    return Lagged(found, float(np.tanh(middle - reach)), float(np.tanh(middle + reach)), count)


def _undefined_half_way(reason: str) -> HalfWay:
    nan = float("nan")
    return HalfWay(nan, nan, nan, nan, nan, reason)


def _undefined_lag(count: int, reason: str) -> Lagged:
    return Lagged(float("nan"), float("nan"), float("nan"), count, reason)
