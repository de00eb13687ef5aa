"""Periodicity: whether a path of positions through space is periodic, and its period.

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
SURROGATES = 199
FLOOR = 0.01
"""Fraction of a white spectrum's power; with less power, peaks are rounding or negligible, not a period."""
SAME_PERIOD = 1.25
"""Peaks whose frequencies differ by a smaller factor are one period that changes along the path."""
FINER = 16
"""How much finer than the path's own frequency resolution the period is computed."""


class Period(NamedTuple):
    """A period in positions, and its range; NaN with a reason if there is none."""

    period: float = nan
    low: float = nan  # range of the periods at half of the peak: wide if the period changes along the path
    high: float = nan
    peak: float = nan  # the statistic: the peak's share of the whitened spectrum
    p: float = nan
    surrogates: int = 0
    reason: str | None = None


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
    "removed), divided at each frequency by its mean over Gaussian tables without a period. Their spectrum is "
    "the table's own, made non-increasing in frequency (isotonic regression). peak: the largest share of that "
    "whitened power, at three turns or more; p: (1 + tables with at least this peak) / (1 + tables). period: "
    "from the power-weighted mean frequency of the band above half of the peak.",
    cost="199 tables of the same size, each through the same components; about 25 ms each at 512 x 384",
    citation="after Fisher 1929 and Mann and Lees 1996",
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
    scores, falling = leading_scores(rows)[0], falling_spectrum(rows)
    found = path_spectrum(scores)
    rng = np.random.default_rng(seed)
    nulls = np.stack(
        [path_spectrum(leading_scores(smooth_table(rng, falling, rows.shape))[0]) for _ in range(surrogates)]
    )
    null = nulls.mean(axis=0)
    peak = _peak(found, null)
    as_large = sum(_peak(each, null) >= peak for each in nulls)
    p = (1 + as_large) / (1 + surrogates)
    whitened = _whiten(found, null)
    at = int(whitened.argmax()) + 1
    if at < MIN_TURNS:
        reason = f"the strongest wave makes fewer than {MIN_TURNS} turns, which is a trend"
        return Period(peak=peak, p=p, surrogates=surrogates, reason=reason), found, null
    strong = np.flatnonzero(whitened >= whitened.max() / 2) + 1
    strong = strong[strong >= MIN_TURNS]
    top = strong[found[strong].argmax()]  # the one of most power, since the mean of the null is random
    band = strong[(strong >= top / SAME_PERIOD) & (strong <= top * SAME_PERIOD)]
    low, high = float(band[0]) - 0.5, float(band[-1]) + 0.5
    return Period(n / _mean_frequency(scores, low, high), n / high, n / low, peak, p, surrogates), found, null


@formula(
    "periodicity/turns",
    "position_helix.turns",
    "position_helix.steps_per_turn",
    "position_helix.quarter",
    definition="Turns of the path about its mean in the plane of the two of its three leading components with "
    "the most power at the period; steps per turn; and the phase difference of the two components in degrees "
    "(90 on a circle, 0 or 180 on a line).",
    cost="exact; from the components",
    citation="Theodolite",
)
def winding(scores: Array, period: float) -> tuple[tuple[int, int], float, float]:
    """Return the two components of the plane (from 0), the turns in it, and their phase difference in degrees.

    >>> angle = 2 * np.pi * np.arange(101) / 20
    >>> plane, turns, quarter = winding(np.stack([np.cos(angle), np.sin(angle), angle * 0], axis=1), 20)
    >>> plane, round(turns, 2), round(quarter)
    ((0, 1), 5.0, 90)
    """
    flat = _remove_trend(scores)
    waves = flat.T @ np.exp(-2j * np.pi * np.arange(len(flat)) / period)
    order = np.abs(waves).argsort(kind="stable")[::-1]
    one, two = sorted((int(order[0]), int(order[1])))
    angles = np.unwrap(np.angle(scores[:, one] + 1j * scores[:, two]))
    behind = np.degrees(np.abs(np.angle(waves[one] * np.conj(waves[two]))))
    return (one, two), float(abs(angles[-1] - angles[0]) / (2 * np.pi)), float(behind)


def leading_scores(rows: Array, count: int = COMPONENTS) -> tuple[Array, Array]:
    """Return the scores on the leading principal components, (n, count), and their shares of variance, (count,).

    The score of largest size in each component is positive.
    """
    from scipy.linalg import eigh

    centred = rows - rows.mean(axis=0)
    gram = centred @ centred.T
    size, count = len(gram), min(count, len(gram))
    values, vectors = eigh(gram, subset_by_index=[size - count, size - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    scores = vectors * np.sqrt(values)
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
    from scipy.optimize import isotonic_regression

    power = _power(rows) / rows.shape[1]
    power[1:] = isotonic_regression(power[1:], increasing=False).x
    return np.asarray(power)


def smooth_table(rng: np.random.Generator, spectrum: Array, shape: tuple[int, int]) -> Array:
    """Return a Gaussian table of independent columns with this power at frequencies 0, 1/n, 2/n, ..."""
    wave = rng.standard_normal((2, len(spectrum), shape[1]))
    amplitude = np.sqrt(spectrum / 2)[:, None]
    return np.asarray(np.fft.irfft(amplitude * (wave[0] + 1j * wave[1]), shape[0], axis=0))


def _remove_trend(scores: Array) -> Array:
    time = np.linspace(-1, 1, len(scores))
    centred = scores - scores.mean(axis=0)
    return np.asarray(centred - np.outer(time, time @ centred / (time @ time)))


def _power(series: Array) -> Array:
    """Return the power at frequencies 0, 1/n, ..., summed over columns, tapered to limit leakage."""
    n = len(series)
    taper = np.hanning(n + 2)[1:-1, None] * np.sqrt(8 / 3)
    return np.asarray(np.square(np.abs(np.fft.rfft(taper * _remove_trend(series), axis=0))).sum(axis=1))


def _whiten(spectrum: Array, null: Array) -> Array:
    """Return the spectrum divided by the null's, as shares, at frequencies strictly between 0 and 1/2."""
    inside = slice(1, len(spectrum) - 1)
    ratio = spectrum[inside] / (null[inside] + FLOOR / len(null))
    return np.asarray(ratio / ratio.sum())


def _peak(spectrum: Array, null: Array) -> float:
    return float(_whiten(spectrum, null)[MIN_TURNS - 1 :].max())


def _mean_frequency(scores: Array, low: float, high: float) -> float:
    """Return the power-weighted mean frequency between two, in turns over the complete path, untapered."""
    longer = FINER * len(scores)
    power = np.square(np.abs(np.fft.rfft(_remove_trend(scores), longer, axis=0))).sum(axis=1)
    turns = np.arange(len(power)) / FINER
    inside = (turns >= low) & (turns <= high)
    return float((turns[inside] * power[inside]).sum() / power[inside].sum())
