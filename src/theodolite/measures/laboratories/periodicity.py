"""Periodicity: whether a path of positions through space is periodic, and its period along the path.

Written by hand: scipy.signal has periodograms, but neither Fisher's test nor a test against smooth surrogates.
"""

from __future__ import annotations

from math import comb, floor, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
COMPONENTS = 3
"""Leading components searched for a helix: two for the rotation, one for the axis."""
MIN_TURNS = 3
"""A wave with fewer turns than this over the complete path is a trend, not a period."""
MIN_ROWS = 32
"""Minimum number of rows for the search."""
SURROGATES = 999
ENOUGH = 100
"""Surrogates with a peak as large as the path's; after so many, p is above 0.1 and no more are generated."""
MIXED = 12
"""Neighbouring frequencies on each side whose directions a surrogate mixes."""
FLOOR = 0.01
"""Fraction of a white spectrum's power; with less power, peaks are rounding or negligible, not a period."""
SAME_PERIOD = 1.25
"""Peaks whose frequencies differ by a smaller factor are one period that changes along the path."""
FINER = 16
"""How much finer than the path's own frequency resolution the period is computed."""
MIN_QUARTER = 30.0
"""Phase difference of two components, in degrees, below which the path does not turn, but oscillates on a line."""
MIN_PART = 3
"""Minimum number of turns between two changes of the period."""
CHANGE_LEVEL = 0.01
PERMUTATIONS = 999
ROUNDING = 1e-3
"""Minimum variance of the length of a turn, so that turns of equal length have a t."""


class Period(NamedTuple):
    """A period in positions, and its range; NaN with a reason if there is none."""

    period: float = nan
    low: float = nan  # range of the periods at half of the peak: wide if the period changes along the path
    high: float = nan
    peak: float = nan  # the statistic: the peak's share of the whitened spectrum
    p: float = nan
    surrogates: int = 0
    reason: str | None = None


class Winding(NamedTuple):
    """The turns of a path about its local mean in the plane of two of its components (numbered from 0)."""

    plane: tuple[int, int]
    phase: Array  # in turns from the first position, ascending on the whole; NaN on a line (n,)
    period: Array  # local period; NaN where the phase does not advance (n,)
    quarter: float  # phase difference of the two components in degrees


@formula(
    "periodicity/fisher-g",
    "position_components.fisher_g",
    "position_components.fisher_p",
    definition="g = max I_j / sum I_j over the Fourier frequencies strictly between 0 and 1/2 of a principal "
    "component along positions; P(g > x) = sum_j (-1)^(j-1) C(m, j) (1 - j x)^(m-1) if the component were white "
    "noise (any smooth component rejects this null: see periodicity/smooth-null).",
    cost="exact; one Fourier transform per component",
    citation="Fisher 1929, Tests of significance in harmonic analysis",
)
def fisher_g(series: Array) -> tuple[float, float]:
    """Return Fisher's g and its exact p-value under Gaussian white noise; NaN for a constant series. (n,)

    >>> g, p = fisher_g(np.cos(2 * np.pi * np.arange(64) / 8))
    >>> round(g, 6), p < 1e-12
    (1.0, True)
    """
    power = np.square(np.abs(np.fft.rfft(series - series.mean())))[1 : (len(series) + 1) // 2]
    if len(power) < 2 or not power.sum() > 1e-24 * np.square(series).sum():
        return nan, nan
    g, m = float(power.max() / power.sum()), len(power)
    terms = ((-1.0) ** (j - 1) * comb(m, j) * max(0.0, 1 - j * g) ** (m - 1) for j in range(1, floor(1 / g) + 1))
    return g, float(np.clip(sum(terms), 0.0, 1.0))


@formula(
    "periodicity/smooth-null",
    "position_helix.period",
    "position_helix.peak",
    "position_helix.p",
    "position_spectrum.power",
    "position_spectrum.without_period",
    definition="Power of the path of positions in its three leading principal components (linear trend "
    "removed), divided by the same power made non-increasing in frequency (isotonic regression). peak: the "
    "largest share of that whitened power, at three turns or more. p: (1 + tables with at least this peak) / "
    "(1 + tables), over random tables without a period that pass through the same steps. Their power is the "
    "table's own, made non-increasing; their direction at each frequency is a random mixture of the table's own "
    "at the 12 frequencies on either side, so that they vary in as many directions as the table does. period: "
    "from the power-weighted mean frequency of the band above half of the peak.",
    cost="up to 999 tables of the same size, each through the same components; about 25 ms each at 512 x 384",
    citation="after Fisher 1929, Mann and Lees 1996, and Kreiss and Paparoditis 2003",
    error="low, high: range of the periods at which whitened power is at least half of its peak",
)
def period_of_path(rows: Array, seed: int = 0, *, surrogates: int = SURROGATES) -> tuple[Period, Array, Array]:
    """Return the period of the rows, the spectrum of their leading components, and that of the null. (n, dim)

    Spectra are shares of the power in these components, at frequencies 0, 1/n, 2/n, ... (n // 2 + 1,) each.
    """
    n, none = len(rows), np.empty(0)
    if n < MIN_ROWS:
        return Period(reason=f"{n} positions are too few to look for a period; it takes {MIN_ROWS}"), none, none
    centred = rows - rows.mean(axis=0)
    total = np.square(centred).sum()
    if not (np.isfinite(total) and total > 1e-24 * np.square(rows).sum()):
        return Period(reason="the positions do not vary, or not all are finite"), none, none
    scores = leading_scores(rows)[0]
    found = path_spectrum(scores)
    whitened = _whiten(found)
    peak = _peak(found)
    surrogate = SurrogateTables(rows)
    rng = np.random.default_rng(seed)
    null, drawn, as_large = np.zeros_like(found), 0, 0
    while drawn < surrogates and as_large < ENOUGH:
        spectrum = path_spectrum(leading_scores(surrogate.draw(rng))[0])
        null, drawn, as_large = null + spectrum, drawn + 1, as_large + (_peak(spectrum) >= peak)
    null /= drawn
    # If enough were as large, the last one was: their share is then exact (Besag and Clifford 1991).
    p = as_large / drawn if as_large == ENOUGH else (1 + as_large) / (1 + drawn)
    at = int(whitened.argmax()) + 1
    if at < MIN_TURNS:
        reason = f"the strongest wave makes fewer than {MIN_TURNS} turns, which is a trend"
        return Period(peak=peak, p=p, surrogates=drawn, reason=reason), found, null
    strong = np.flatnonzero(whitened >= whitened.max() / 2) + 1
    strong = strong[strong >= MIN_TURNS]
    top = strong[found[strong].argmax()]  # the one of most power, since the mean of the null is random
    band = strong[(strong >= top / SAME_PERIOD) & (strong <= top * SAME_PERIOD)]
    low, high = float(band[0]) - 0.5, float(band[-1]) + 0.5
    return Period(n / _mean_frequency(scores, low, high), n / high, n / low, peak, p, drawn), found, null


@formula(
    "periodicity/turns",
    "position_helix.turns",
    "position_helix.steps_per_turn",
    "position_helix.quarter",
    "position_path.phase",
    "position_path.local_period",
    definition="phase: angle of the path, in turns, about its local mean over one period, in the plane of the two "
    "of its three leading components with the most power within a factor of 2 of the period, each over its "
    "standard deviation. turns: phase at the end. local_period: 1 / slope of the phase over two periods. quarter: "
    "phase difference of the two components in degrees (90 on a circle, 0 or 180 on a line); the others are null "
    "if it is below 30 or above 150.",
    cost="exact; from the components",
    citation="Theodolite",
)
def winding(scores: Array, period: float) -> Winding:
    """Return the phase of the path along its positions, about a local mean. (n, components)

    A path whose axis drifts does not encircle its overall mean, but it encircles its mean over one period. A path
    that oscillates on a line encircles nothing: its phase is NaN.

    >>> angle = 2 * np.pi * np.arange(101) / 20
    >>> found = winding(np.stack([np.cos(angle), np.sin(angle), angle * 3], axis=1), 20)
    >>> found.plane, round(float(found.phase[-1]), 1), round(found.quarter)
    ((0, 1), 5.0, 90)
    >>> np.unique(found.period.round(1)).tolist()
    [20.0]
    """
    from scipy.signal import detrend, savgol_filter

    straight = detrend(scores, axis=0)  # at the ends a local mean does not follow a trend
    flat = straight - local_mean(straight, period)
    spectra = np.fft.rfft(flat, axis=0)
    turns = np.arange(len(spectra)) * period / len(scores)  # frequency in cycles per period
    band = np.abs(spectra[(turns >= 0.5) & (turns <= 2)])
    order = np.square(band).sum(axis=0).argsort(kind="stable")[::-1]
    one, two = sorted((int(order[0]), int(order[1])))
    a, b = flat[:, one], flat[:, two]
    phase = np.unwrap(np.angle(a / (a.std() or 1.0) + 1j * b / (b.std() or 1.0))) / (2 * np.pi)
    phase = (phase - phase[0]) * (-1 if phase[-1] < phase[0] else 1)
    window = min(2 * round(period) + 1, len(phase) - (len(phase) + 1) % 2)
    speed = savgol_filter(phase, window, 1, deriv=1)
    waves = spectra[:, one] * np.conj(spectra[:, two])
    behind = float(np.degrees(np.abs(np.angle(waves[(turns >= 0.5) & (turns <= 2)].sum()))))
    local = np.divide(1.0, speed, out=np.full(len(speed), nan), where=speed > 0)
    if not MIN_QUARTER <= behind <= 180 - MIN_QUARTER:
        phase, local = np.full_like(phase, nan), np.full_like(local, nan)
    return Winding((one, two), phase, np.asarray(local), behind)


def local_mean(scores: Array, period: float) -> Array:
    """Return the mean of the rows over one period about each row, at the ends over the first or last period."""
    window = min(max(1, round(period)), len(scores))
    sums = np.concatenate([np.zeros((1, scores.shape[1])), scores.cumsum(axis=0)])
    begin = np.clip(np.arange(len(scores)) - window // 2, 0, len(scores) - window)
    return np.asarray((sums[begin + window] - sums[begin]) / window)


@formula(
    "periodicity/change-points",
    "position_helix.changes",
    "position_periods.period",
    definition="Positions at which the period changes. The lengths of consecutive turns are divided in two where "
    "the means differ most (t), if their order matters: p < 0.01 over 999 permutations of the turns; then each "
    "part again. The position is that of the corner of two joined lines that fit the phase best by least squares, "
    "within one turn. period: positions / turns between changes.",
    cost="from the phase; milliseconds",
    citation="after Sen and Srivastava 1975",
)
def period_changes(phase: Array, seed: int = 0) -> list[int]:
    """Return the rows at which the period changes, in ascending order. (n,) in turns

    >>> phase = np.concatenate([np.arange(120) / 12, 10 + np.arange(200) / 20])
    >>> period_changes(phase + 0.02 * np.random.default_rng(0).normal(size=320))
    [120]
    """
    if not np.isfinite(phase).all():
        return []
    rng = np.random.default_rng(seed)
    ahead = np.maximum.accumulate(phase)
    ends = np.interp(np.arange(floor(ahead[-1]) + 1), ahead, np.arange(len(phase)))  # where each turn begins
    return sorted(_divide(phase, ends, rng))


def _divide(phase: Array, ends: Array, rng: np.random.Generator) -> list[int]:
    lengths = np.diff(ends)
    if len(lengths) < 2 * MIN_PART:
        return []
    statistic = _largest_step(lengths[None])
    shuffled = rng.permuted(np.tile(lengths, (PERMUTATIONS, 1)), axis=1)
    as_large = (_largest_step(shuffled)[0] >= statistic[0] - 1e-9).sum()
    if (1 + as_large) / (1 + PERMUTATIONS) >= CHANGE_LEVEL:
        return []
    at = int(statistic[1][0])
    corner = _corner(phase, *(round(ends[turn]) for turn in (0, -1, at - 1, at + 1)))
    return [corner, *_divide(phase, ends[: at + 1], rng), *_divide(phase, ends[at:], rng)]


def _largest_step(lengths: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the largest |t| of two parts of each row, and where the second part begins. (rows, n)"""
    n = lengths.shape[1]
    at = np.arange(MIN_PART, n - MIN_PART + 1)
    sums, squares = lengths.cumsum(axis=1), np.square(lengths).sum(axis=1, keepdims=True)
    first, total = sums[:, at - 1], sums[:, -1:]
    within = squares - np.square(first) / at - np.square(total - first) / (n - at)
    gap = np.abs(first / at - (total - first) / (n - at))
    t = gap / np.sqrt(np.maximum(within, ROUNDING * n) * (1 / at + 1 / (n - at)))
    best = t.argmax(axis=1)
    return t[np.arange(len(t)), best], at[best]


def _corner(phase: Array, first: int, last: int, low: int, high: int) -> int:
    """Return the row between low and high at which two joined lines fit the phase between first and last best."""
    time, values = np.arange(first, last), phase[first:last]

    def misfit(corner: int) -> float:
        lines = np.stack([np.ones(len(time)), time, np.maximum(time - corner, 0)], axis=1)
        return float(np.square(values - lines @ np.linalg.lstsq(lines, values)[0]).sum())

    return min(range(low, high + 1), key=misfit)


def leading_scores(rows: Array, count: int = COMPONENTS) -> tuple[Array, Array]:
    """Return the scores on the leading principal components, (n, count), and their shares of variance, (count,).

    The score of largest size in each component is positive.
    """
    from scipy.linalg import eigh

    centred = rows - rows.mean(axis=0)
    short = centred if rows.shape[1] < len(rows) else centred.T
    gram = short.T @ short
    size, count = len(gram), min(count, len(gram))
    values, vectors = eigh(gram, subset_by_index=[size - count, size - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    scores = centred @ vectors if short is centred else vectors * np.sqrt(values)
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(count)])
    total = np.trace(gram)
    return scores * np.where(signs == 0, 1, signs), values / total if total > 0 else np.full(count, nan)


def path_spectrum(scores: Array) -> Array:
    """Return the shares of power at frequencies 0, 1/n, ..., summed over components, trend removed. (n, any)"""
    power = _power(scores)
    return np.asarray(power / power.sum() if power.sum() > 0 else power)


def falling_spectrum(rows: Array) -> Array:
    """Return the mean power of the coordinates, trend removed, made non-increasing in frequency. -> (n // 2 + 1,)

    Smooth series without a period have such a spectrum: noise, a random walk, a slow drift.
    """
    return _make_falling(_power(rows) / rows.shape[1])


class SurrogateTables:
    """Random tables like `rows`, but without a period. (n, dim)

    Independent columns would be wrong: a table that varies in few directions has rougher spectra than the mean of
    many columns has, and its roughness would be mistaken for a period.
    """

    def __init__(self, rows: Array) -> None:
        self.n, dim = rows.shape
        waves = np.fft.rfft(_taper(self.n) * _remove_trend(rows), axis=0)
        lengths = np.linalg.norm(waves, axis=1, keepdims=True)
        self.directions = np.divide(waves, lengths, out=np.zeros_like(waves), where=lengths > 0)
        self.scale = np.sqrt(falling_spectrum(rows) * dim)[:, None]
        last = len(waves) - 1
        near = np.abs(np.arange(last + 1)[:, None] + np.arange(-MIXED, MIXED + 1))
        near = np.where(near > last, 2 * last - near, near)
        self.near = np.clip(near, min(1, last), last)  # the trend at frequency 0 is removed

    def draw(self, rng: np.random.Generator) -> Array:
        """Return one table. (n, dim)"""
        real, imaginary = rng.standard_normal((2, *self.near.shape))
        weights = np.zeros((len(self.near), len(self.near)), dtype=np.complex128)
        np.add.at(weights, (np.arange(len(weights))[:, None], self.near), real + 1j * imaginary)
        waves = weights @ self.directions / np.sqrt(2 * self.near.shape[1])
        return np.asarray(np.fft.irfft(self.scale * waves, self.n, axis=0))


def _remove_trend(scores: Array) -> Array:
    time = np.linspace(-1, 1, len(scores))
    centred = scores - scores.mean(axis=0)
    return np.asarray(centred - np.outer(time, time @ centred / (time @ time)))


def _power(series: Array) -> Array:
    """Return the power at frequencies 0, 1/n, ..., summed over columns, tapered to limit leakage."""
    n = len(series)
    return np.asarray(np.square(np.abs(np.fft.rfft(_taper(n) * _remove_trend(series), axis=0))).sum(axis=1))


def _taper(n: int) -> Array:
    return np.asarray(np.hanning(n + 2)[1:-1, None] * np.sqrt(8 / 3))


def _whiten(spectrum: Array) -> Array:
    """Return the spectrum divided by itself made non-increasing, as shares, strictly between 0 and 1/2."""
    inside = slice(1, len(spectrum) - 1)
    ratio = spectrum[inside] / (_make_falling(spectrum)[inside] + FLOOR * spectrum.sum() / len(spectrum))
    return np.asarray(ratio / ratio.sum())


def _make_falling(spectrum: Array) -> Array:
    """Return the spectrum made non-increasing from frequency 1/n on. (n // 2 + 1,)"""
    from scipy.optimize import isotonic_regression

    return np.append(spectrum[:1], isotonic_regression(spectrum[1:], increasing=False).x)


def _peak(spectrum: Array) -> float:
    return float(_whiten(spectrum)[MIN_TURNS - 1 :].max())


def _mean_frequency(scores: Array, low: float, high: float) -> float:
    """Return the power-weighted mean frequency between two, in turns over the complete path, untapered."""
    longer = FINER * len(scores)
    power = np.square(np.abs(np.fft.rfft(_remove_trend(scores), longer, axis=0))).sum(axis=1)
    turns = np.arange(len(power)) / FINER
    inside = (turns >= low) & (turns <= high)
    return float((turns[inside] * power[inside]).sum() / power[inside].sum())
