"""Position encodings: sinusoids, rotary similarity, and untrained rows of a learned table."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
BASE = 10_000.0


@formula(
    "positions/sinusoid",
    "sinusoid.value",
    definition="Coordinate k of position n is sin(n / 10000^(2 floor(k/2) / d)) for even k, cos of the same for "
    "odd k. A sine and a cosine share each frequency, so cosines depend only on the distance of two positions.",
    cost="exact",
    citation="Vaswani et al. 2017, section 3.5",
)
def sinusoidal(positions: int, dim: int) -> Array:
    """Return the sinusoidal encodings of Vaswani et al. (positions, dim)

    >>> sinusoidal(2, 4).round(3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.841, 0.54, 0.01, 1.0]]
    """
    return _waves(positions, dim, 2 * (np.arange(dim) // 2) / dim)


@formula(
    "positions/sinusoid-2k",
    "sinusoid.value_2k",
    definition="The same with the exponent 2 k / d, as the thesis prints it. No two coordinates share a "
    "frequency, so cosines depend on more than the distance, and half of the frequencies are below 1/10000.",
    cost="exact",
    citation="bert-spaces, section 3.2.4, as printed",
)
def sinusoidal_as_printed(positions: int, dim: int) -> Array:
    """Return the sinusoidal encodings with the exponent as printed in the thesis. (positions, dim)"""
    return _waves(positions, dim, 2 * np.arange(dim) / dim)


@formula(
    "positions/rotary-similarity",
    "position_rotary.similarity",
    definition="Mean over the rotary frequencies of cos(k theta_j): the cosine between a vector with equal weight "
    "in every rotated plane and the same vector rotated by k positions.",
    cost="exact; from the model's own frequencies, scaling included",
    citation="after Su et al. 2021, RoFormer, section 3.4.3 (there a bound)",
)
def rotary_similarity(frequencies: Array, distances: Array) -> Array:
    """Return the mean of cos(k theta_j) at each distance k. (planes,), (n,) -> (n,)

    >>> rotary_similarity(np.array([np.pi, 0.0]), np.array([0.0, 1.0, 2.0])).round(9).tolist()
    [1.0, 0.0, 1.0]
    """
    return np.asarray(np.cos(np.outer(distances, frequencies)).mean(axis=1))


def _waves(positions: int, dim: int, exponents: Array) -> Array:
    angles = np.arange(positions)[:, None] / BASE**exponents
    return np.asarray(np.where(np.arange(dim) % 2 == 0, np.sin(angles), np.cos(angles)))


PREVIOUS_ROWS = 4
"""Number of previous rows from which each row is predicted."""
LEVEL = 0.01
"""Significance level: for rejecting a row as untrained, and for the change before the tail."""
MIN_DIMENSIONS = 8


class Tail(NamedTuple):
    """The untrained last rows of a table, if there are any, and the evidence for them."""

    first: int | None  # the first row of the tail
    rows: int
    change_p: float = nan  # p-value of the drop of the shares from the rows before; NaN without such rows
    sd: float = nan  # standard deviation about 0: the scale of the initialisation, if untrained
    zero: int = 0  # number of rows that are exactly 0
    reason: str | None = None


@formula(
    "untrained/foretold-share",
    "position_rows.foretold",
    "position_rows.p",
    definition="|P x_i|^2 / |x_i|^2 with P the projection on the previous four rows; p = P(Beta(r/2, (d - r)/2) "
    ">= share), exact for a row drawn about 0 independently of the others, for any lengths. The same after "
    "subtracting the mean of the table's last eighth, so that a vector added to all rows has no effect; the "
    "smaller share and the larger p of the two are used.",
    cost="exact; one small projection per row",
    citation="Theodolite",
)
def predicted_shares(rows: Array) -> tuple[Array, Array]:
    """Return the share of each row predicted by previous rows, and its p-value. (n, dim) -> (n,), (n,)

    NaN for the first row, for rows of 0, and where a number is not finite.
    """
    last = rows[-max(16, len(rows) // 8) :]
    raw = _predicted_shares(rows)
    about = _predicted_shares(rows - last.mean(axis=0)) if len(rows) > len(last) else raw
    return np.fmin(raw[0], about[0]), np.fmax(raw[1], about[1])


@formula(
    "untrained/tail",
    "position_tail.first",
    "position_tail.rows",
    "position_tail.change_p",
    definition="The longest run of last rows of which none is predicted by previous rows at level 0.01/n "
    "(Bonferroni: a true tail is cut short in at most 1% of tables), if their shares are lower than those of "
    "the rows before (one-sided Mann-Whitney, p < 0.01). Rows of zeros count as untrained.",
    cost="exact; from the shares",
    citation="Theodolite; Mann and Whitney 1947",
)
def untrained_tail(rows: Array, shares: Array, p: Array) -> Tail:
    """Return the last rows that look like random initialisation. (n, dim), (n,), (n,)"""
    from scipy.stats import mannwhitneyu

    if len(rows) < 2 or rows.shape[1] < MIN_DIMENSIONS:
        return Tail(None, 0, reason=f"a table of {len(rows)} x {rows.shape[1]} is too small for the test")
    zero: NDArray[np.bool_] = np.asarray(~rows.any(axis=1))
    structured = ~zero & ~(p >= LEVEL / len(rows))  # NaN of values that are not finite does not count as random
    structured[0] = False  # it has no previous row
    found = np.flatnonzero(structured)
    first = int(found[-1]) + 1 if len(found) else 0
    tail = rows[first:]
    if not len(tail):
        return Tail(None, 0)
    sd, zeros = float(np.sqrt(np.square(tail).mean())), int(zero[first:].sum())
    if not len(found):
        reason = "no row predicts the next: the complete table is untrained"
        return Tail(0, len(rows), nan, sd, zeros, reason)
    before, after = shares[1:first], np.where(zero, 0.0, shares)[first:]
    change = float(mannwhitneyu(after, before[np.isfinite(before)], alternative="less").pvalue)
    if not change < LEVEL:
        return Tail(None, 0, change, reason=f"the last {len(tail)} rows are no different from those before")
    return Tail(first, len(tail), change, sd, zeros)


def _predicted_shares(rows: Array) -> tuple[Array, Array]:
    from scipy.stats import beta

    n, dim = rows.shape
    shares, ranks = np.full(n, nan), np.zeros(n)
    lengths = np.linalg.norm(rows, axis=1)
    units = np.divide(rows, lengths[:, None], out=np.zeros_like(rows), where=lengths[:, None] > 0)
    for row in range(1, n):
        before = units[max(0, row - min(PREVIOUS_ROWS, dim // 4)) : row]
        if np.isfinite(before).all() and np.isfinite(units[row]).all() and lengths[row] > 0:
            _, scales, axes = np.linalg.svd(before, full_matrices=False)
            axes = axes[scales > 1e-6]  # a repeated row adds no direction
            ranks[row] = len(axes)
            shares[row] = np.square(axes @ units[row]).sum() if len(axes) else nan
    p = np.full(n, nan)
    known = np.isfinite(shares)
    p[known] = beta.sf(np.minimum(shares[known], 1.0), ranks[known] / 2, (dim - ranks[known]) / 2)
    return shares, p
