"""Periods: whether a path through space goes round and round, and how far a round is."""

from __future__ import annotations

from math import comb, floor, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
COMPONENTS = 3
"""Leading components in which a helix is looked for: two to go round in, one to go along."""
TURNS = 3
"""Fewer turns than this over the whole path are a trend, not a period."""
FEWEST = 32
"""Rows below which no period is looked for."""
SURROGATES = 199
FLOOR = 0.01
"""Of a white spectrum's power: where a path has less, its peaks are rounding or next to nothing, and no period."""
NEAR = 1.25
"""Peaks whose frequencies differ by less are one period whose length changes along the path."""
FINER = 16
"""How much finer than the path's own resolution the period is placed."""


class Period(NamedTuple):
    """A period in positions, and the range over which it spreads; NaN with the reason where there is none."""

    period: float = nan
    low: float = nan  # of the periods at half of the peak: a pitch that changes along the path spreads
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
    "noise (which any smooth component refutes: see periodicity/smooth-null).",
    cost="exact; one Fourier transform a component",
    citation="Fisher 1929, Tests of significance in harmonic analysis",
)
def fisher_g(series: Array) -> tuple[float, float]:
    """Return Fisher's g and its exact p under Gaussian white noise; NaN for a constant. (n,)

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
    definition="Power of the path of positions in its three leading principal components (linear trend removed), "
    "divided at each frequency by its mean over Gaussian tables without a period: their spectrum is the table's "
    "own, made to fall or stay level from long waves to short (isotonic regression). peak: the largest share of "
    "that whitened power, at three turns or more; p: (1 + tables with a peak as large) / (1 + tables). period: "
    "from the mean frequency, by power, of the band at half of the peak.",
    cost="199 tables of the same size, each through the same components; about 25 ms each at 512 x 384",
    citation="after Fisher 1929 and Mann and Lees 1996",
    error="low, high: the periods at which whitened power is at least half of its peak, to the path's resolution",
)
def period_of_path(rows: Array, seed: int = 0, *, surrogates: int = SURROGATES) -> tuple[Period, Array, Array]:
    """Return the period of rows in order, the spectrum of their leading components, and the null's. (n, dim)

    Spectra are shares of the power in these components, at frequencies 0, 1/n, 2/n, ... (n // 2 + 1,) each.
    """
    n, none = len(rows), np.empty(0)
    if n < FEWEST:
        return Period(reason=f"{n} positions are too few to look for a period; it takes {FEWEST}"), none, none
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
    whitened = _whitened(found, null)
    at = int(whitened.argmax()) + 1
    if at < TURNS:
        reason = f"the strongest wave makes fewer than {TURNS} turns, which is a trend"
        return Period(peak=peak, p=p, surrogates=surrogates, reason=reason), found, null
    strong = np.flatnonzero(whitened >= whitened.max() / 2) + 1
    strong = strong[strong >= TURNS]
    top = strong[found[strong].argmax()]  # of most power, for the null's own mean is drawn by lot
    band = strong[(strong >= top / NEAR) & (strong <= top * NEAR)]
    low, high = float(band[0]) - 0.5, float(band[-1]) + 0.5
    return Period(n / _middle(scores, low, high), n / high, n / low, peak, p, surrogates), found, null


@formula(
    "periodicity/turns",
    "position_helix.turns",
    "position_helix.steps_per_turn",
    "position_helix.quarter",
    definition="Turns of the path about its mean in the plane of the two of its three leading components that "
    "have most power at the period; steps over turns; and by how many degrees one component is behind the other "
    "there (90 on a circle, 0 or 180 on a line).",
    cost="exact; from the components",
    citation="here",
)
def winding(scores: Array, period: float) -> tuple[tuple[int, int], float, float]:
    """Return the plane's two components, from 0, the turns made in it, and their difference of phase in degrees.

    >>> angle = 2 * np.pi * np.arange(101) / 20
    >>> plane, turns, quarter = winding(np.stack([np.cos(angle), np.sin(angle), angle * 0], axis=1), 20)
    >>> plane, round(turns, 2), round(quarter)
    ((0, 1), 5.0, 90)
    """
    flat = _without_trend(scores)
    waves = flat.T @ np.exp(-2j * np.pi * np.arange(len(flat)) / period)
    order = np.abs(waves).argsort(kind="stable")[::-1]
    one, two = sorted((int(order[0]), int(order[1])))
    angles = np.unwrap(np.angle(scores[:, one] + 1j * scores[:, two]))
    behind = np.degrees(np.abs(np.angle(waves[one] * np.conj(waves[two]))))
    return (one, two), float(abs(angles[-1] - angles[0]) / (2 * np.pi)), float(behind)


def leading_scores(rows: Array, count: int = COMPONENTS) -> tuple[Array, Array]:
    """Return the leading principal components of rows, (n, count), and their shares of the variance, (count,).

    Signs are fixed: the coordinate of largest size in each component is positive.
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
    """Return the power at frequencies 0, 1/n, ... of all components together, trend removed, as shares."""
    power = _power(scores)
    return np.asarray(power / power.sum() if power.sum() > 0 else power)


def falling_spectrum(rows: Array) -> Array:
    """Return the power of all coordinates together, trend removed, made to fall from long waves to short.

    Whatever is smooth without a period has such a spectrum: noise, a random walk, a slow drift. (n // 2 + 1,)
    """
    from scipy.optimize import isotonic_regression

    power = _power(rows) / rows.shape[1]
    power[1:] = isotonic_regression(power[1:], increasing=False).x
    return np.asarray(power)


def smooth_table(rng: np.random.Generator, spectrum: Array, shape: tuple[int, int]) -> Array:
    """Return a Gaussian table whose columns have this power at 0, 1/n, 2/n, ... and nothing else in common."""
    wave = rng.standard_normal((2, len(spectrum), shape[1]))
    amplitude = np.sqrt(spectrum / 2)[:, None]
    return np.asarray(np.fft.irfft(amplitude * (wave[0] + 1j * wave[1]), shape[0], axis=0))


def _without_trend(scores: Array) -> Array:
    time = np.linspace(-1, 1, len(scores))
    centred = scores - scores.mean(axis=0)
    return np.asarray(centred - np.outer(time, time @ centred / (time @ time)))


def _power(series: Array) -> Array:
    """Return the power at 0, 1/n, ... of all columns together, tapered so that a wave between two stays there."""
    n = len(series)
    taper = np.hanning(n + 2)[1:-1, None] * np.sqrt(8 / 3)
    return np.asarray(np.square(np.abs(np.fft.rfft(taper * _without_trend(series), axis=0))).sum(axis=1))


def _whitened(spectrum: Array, null: Array) -> Array:
    """Return the spectrum over the null's, as shares, at frequencies strictly between 0 and 1/2."""
    inside = slice(1, len(spectrum) - 1)
    ratio = spectrum[inside] / (null[inside] + FLOOR / len(null))
    return np.asarray(ratio / ratio.sum())


def _peak(spectrum: Array, null: Array) -> float:
    return float(_whitened(spectrum, null)[TURNS - 1 :].max())


def _middle(scores: Array, low: float, high: float) -> float:
    """Return the mean frequency by power between two, in turns over the whole path, untapered."""
    longer = FINER * len(scores)
    power = np.square(np.abs(np.fft.rfft(_without_trend(scores), longer, axis=0))).sum(axis=1)
    turns = np.arange(len(power)) / FINER
    inside = (turns >= low) & (turns <= high)
    return float((turns[inside] * power[inside]).sum() / power[inside].sum())
