"""Untrained rows: whether the last rows of a table of positions are still the random numbers that it began as."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]
BEFORE = 4
"""Rows from which each row is foretold."""
LEVEL = 0.01
"""How often a tail that is there may be cut short by chance; and how rare the step to it must be."""
FEWEST_DIMENSIONS = 8


class Tail(NamedTuple):
    """Where the untrained rows begin, nothing if there are none, and how sure that is."""

    first: int | None  # the first row of the tail
    rows: int
    change_p: float = nan  # of its shares being no lower than those of the rows before; NaN without such rows
    sd: float = nan  # of its numbers about 0: what they were drawn with, if they are untrained
    zero: int = 0  # rows of it that are exactly 0
    reason: str | None = None


@formula(
    "untrained/foretold-share",
    "position_rows.foretold",
    "position_rows.p",
    definition="|P x_i|^2 / |x_i|^2 with P the projection on the four rows before; p = P(Beta(r/2, (d - r)/2) >= "
    "share), exact for a row drawn about 0 with no regard to the others, whatever its length and theirs. The "
    "same after the mean of the table's last eighth is taken away, so that a vector added to all rows hides "
    "nothing; the smaller share and the larger p of the two count.",
    cost="exact; a small projection a row",
    citation="here",
)
def foretold(rows: Array) -> tuple[Array, Array]:
    """Return how much of each row those before it tell, and the p of so much by chance. (n, dim) -> (n,), (n,)

    NaN where there is nothing before, where a row is 0, or where a number is not finite.
    """
    last = rows[-max(16, len(rows) // 8) :]
    raw = _foretold(rows)
    about = _foretold(rows - last.mean(axis=0)) if len(rows) > len(last) else raw
    return np.fmin(raw[0], about[0]), np.fmax(raw[1], about[1])


@formula(
    "untrained/tail",
    "position_tail.first",
    "position_tail.rows",
    "position_tail.change_p",
    definition="The longest run of last rows of which none is foretold by those before it at 0.01/n (Bonferroni: "
    "a tail that is there is cut short in at most 1% of tables), if their shares are lower than those of the rows "
    "before (one-sided Mann-Whitney, p < 0.01). Rows of zeros count as untrained.",
    cost="exact; from the shares",
    citation="here; Mann and Whitney 1947",
)
def untrained_tail(rows: Array, shares: Array, p: Array) -> Tail:
    """Return the tail of rows that look as a random start left them. (n, dim), (n,), (n,)"""
    from scipy.stats import mannwhitneyu

    if len(rows) < 2 or rows.shape[1] < FEWEST_DIMENSIONS:
        return Tail(None, 0, reason=f"a table of {len(rows)} x {rows.shape[1]} is too small to tell")
    zero: NDArray[np.bool_] = np.asarray(~rows.any(axis=1))
    structured = ~zero & ~(p >= LEVEL / len(rows))  # NaN from numbers that are not finite is no sign of chance
    structured[0] = False  # nothing comes before it
    found = np.flatnonzero(structured)
    first = int(found[-1]) + 1 if len(found) else 0
    tail = rows[first:]
    if not len(tail):
        return Tail(None, 0)
    sd, zeros = float(np.sqrt(np.square(tail).mean())), int(zero[first:].sum())
    if not len(found):
        reason = "no row tells anything of the next: the whole table is untrained"
        return Tail(0, len(rows), nan, sd, zeros, reason)
    before, after = shares[1:first], np.where(zero, 0.0, shares)[first:]
    change = float(mannwhitneyu(after, before[np.isfinite(before)], alternative="less").pvalue)
    if not change < LEVEL:
        return Tail(None, 0, change, reason=f"the last {len(tail)} rows are no different from those before")
    return Tail(first, len(tail), change, sd, zeros)


def _foretold(rows: Array) -> tuple[Array, Array]:
    from scipy.stats import beta

    n, dim = rows.shape
    shares, ranks = np.full(n, nan), np.zeros(n)
    lengths = np.linalg.norm(rows, axis=1)
    units = np.divide(rows, lengths[:, None], out=np.zeros_like(rows), where=lengths[:, None] > 0)
    for row in range(1, n):
        before = units[max(0, row - min(BEFORE, dim // 4)) : row]
        if np.isfinite(before).all() and np.isfinite(units[row]).all() and lengths[row] > 0:
            _, scales, axes = np.linalg.svd(before, full_matrices=False)
            axes = axes[scales > 1e-6]  # a row that repeats another tells nothing more
            ranks[row] = len(axes)
            shares[row] = np.square(axes @ units[row]).sum() if len(axes) else nan
    p = np.full(n, nan)
    known = np.isfinite(shares)
    p[known] = beta.sf(np.minimum(shares[known], 1.0), ranks[known] / 2, (dim - ranks[known]) / 2)
    return shares, p
