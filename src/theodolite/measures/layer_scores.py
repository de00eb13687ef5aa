"""Scores by which a layer may be chosen without labels: RankMe, alpha-ReQ, LiDAR, prompt entropy and curvature.

docs/which-layer.md has how well each predicts what a layer is good for.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.measures.formula import formula
from theodolite.measures.resampling import group_error
from theodolite.measures.spectrum import (
    PRODUCT_ROUNDING,
    effective_rank,
    effective_rank_singular,
    eigenvalues,
    eigenvectors,
)
from theodolite.measures.uncertainty import Estimate

Array = NDArray[np.float64]
FIRST_RANK, LAST_RANK = 4, 100
"""Ranks of the eigenvalues to which alpha-ReQ fits a power law: those of its released code."""
FEWEST_RANKS = 8
FEW_RANKS = f"fewer than {FEWEST_RANKS} eigenvalues from rank {FIRST_RANK} to {LAST_RANK} are above rounding"
RIDGE = 1e-4
"""What LiDAR adds to the spread within units, over its mean eigenvalue."""
NO_SPREAD = "the vectors of a unit do not differ"
NO_ENTROPY = "no window has two vectors, or the positions have no order"
NO_CURVATURE = "no window has three vectors that follow each other and differ"
SKEAN = "Skean et al. 2025, Layer by Layer"


@formula(
    "rankme/uncentred",
    "rankme",
    definition="exp of the entropy of the singular values of the vectors over their sum, without centring: "
    "effective_rank_singular of E x x^T instead of the covariance. Eigenvalues below rounding count as 0.",
    cost="exact; from the spectrum of the second moment",
    citation="Garrido et al. 2023, RankMe",
)
def rankme(second: Array) -> float:
    """Return the effective rank of the singular values of a second moment; NaN if all vectors are 0. (dim,)

    >>> round(rankme(np.array([4.0, 4.0, 0.0])), 12)
    2.0
    """
    return effective_rank_singular(second)


@formula(
    "alpha-req/ranks-4-100",
    "alpha_req",
    definition="alpha of the power law l_i ~ i^-alpha of the covariance's eigenvalues: minus the slope of log l_i "
    "on log i with weights 1/i, over the ranks 4 to 100 whose eigenvalues are above rounding, at least 8 of them.",
    cost="from the spectrum; least squares",
    citation="Agrawal et al. 2022, alpha-ReQ; the weights are Stringer et al.'s (2019)",
)
def alpha_req(spectrum: Array) -> float:
    """Return the exponent by which the eigenvalues decay; NaN for fewer than 8 of them. (dim,) largest first

    >>> round(alpha_req(np.arange(1.0, 51.0) ** -1.5), 9)
    1.5
    """
    weights = alpha_weights(spectrum)
    if not weights.any():
        return float("nan")
    used = weights != 0
    return float(-(weights[used] * np.log(spectrum[used])).sum())


def alpha_weights(spectrum: Array) -> Array:
    """Return the weight of each log l_i in the slope on log i; all 0 if too few eigenvalues can be used. (dim,)"""
    rank = np.arange(1, len(spectrum) + 1)
    rounding = PRODUCT_ROUNDING * spectrum.sum() / np.sqrt(max(len(spectrum), 1))
    used = (rank >= FIRST_RANK) & (rank <= LAST_RANK) & (spectrum > rounding)
    if used.sum() < FEWEST_RANKS:
        return np.zeros(len(spectrum))
    weight, x = used / rank, np.log(rank)
    from_mean = x - np.average(x, weights=weight)
    return np.asarray(weight * from_mean / (weight * from_mean**2).sum())


@formula(
    "lidar/units",
    "lidar",
    definition="exp of the entropy of the eigenvalues of W^-1/2 B W^-1/2 over their sum. B is the covariance of "
    "the means of the units that occur 10 to 100,000 times and are not special, each counted once; W the "
    "covariance of all positions about the mean of their unit, plus 1e-4 of its mean eigenvalue. At "
    "most one less than the units in B.",
    cost="from the sums by unit, units x dim^2, and two dim x dim eigenproblems; computed with --layer-scores",
    citation="Thilak et al. 2024, LiDAR (there the classes are pictures and their augmented copies)",
)
def lidar(within: Tensor, between: Tensor, *, rounding: float = 0.0) -> float:
    """Return the effective rank of the spread between classes, measured by that within them. (dim, dim) each

    Eigenvalues of `within` below `rounding` count as that. NaN if nothing varies within or between classes.

    >>> within = torch.diag(torch.tensor([4.0, 1.0])).double()
    >>> round(lidar(within, 3 * within), 3), round(lidar(within, torch.eye(2).double()), 3)
    (2.0, 1.649)
    """
    spread = float(within.trace()) / len(within)
    if not spread > rounding:
        return float("nan")
    values, axes = eigenvectors(within)
    scale = torch.from_numpy(np.maximum(values, rounding)[::-1].copy()).to(axes) + RIDGE * spread
    whitened = axes / scale.sqrt()  # columns are eigenvectors, smallest first
    return effective_rank(eigenvalues(whitened.T @ between @ whitened))


def spread_of_units(n: Tensor, total: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """Return the covariance of the means of all units, weighted by n, and of the used ones, each counted once.

    n: (units,), total: (units, dim) about any centre near the mean, used: (units,) bool -> (dim, dim) each
    """
    means = total / n[:, None]
    mean = total.sum(0) / n.sum()
    weighted = (means - mean) * (n / n.sum()).sqrt()[:, None]
    chosen = means[used] - means[used].mean(0)
    return weighted.T @ weighted, chosen.T @ chosen / max(len(chosen), 1)


@formula(
    "prompt-entropy/gram",
    "prompt_entropy",
    "prompt_entropy_windows",
    definition="Mean over windows of the entropy of the eigenvalues of X X^T over its trace, divided by "
    "log(min(positions, dim)); X are the vectors of the population in the window, not centred. 0: all are "
    "parallel; 1: all directions are used alike. Windows of at least two positions.",
    cost="exact; one eigenproblem per window; computed with --layer-scores",
    citation=SKEAN + " (its code replaces negative entries of X X^T by 0)",
    error="jackknife over 20 document groups (prompt_entropy_se)",
)
def mean_entropy(n: NDArray[np.int64], total: Array) -> Estimate:
    """Return the mean over windows and its error from windows and sums by document group. (groups,) each"""
    return _mean_of_groups(n, total, NO_ENTROPY)


@formula(
    "curvature/steps",
    "curvature",
    "curvature_windows",
    definition="Mean over windows of the mean angle between the steps x_(k+1) - x_k and x_(k+2) - x_(k+1), in "
    "degrees; over positions that follow each other and are all in the population. 0: a straight line; 90: "
    "orthogonal steps; 120: independent vectors. Steps of length 0 have no direction and are omitted.",
    cost="exact; one pass; computed with --layer-scores",
    citation="Hosseini and Fedorenko 2023; used by " + SKEAN,
    error="jackknife over 20 document groups (curvature_se)",
)
def mean_curvature(n: NDArray[np.int64], total: Array) -> Estimate:
    """Return the mean over windows and its error from windows and sums by document group. (groups,) each"""
    return _mean_of_groups(n, total, NO_CURVATURE)


def _mean_of_groups(n: NDArray[np.int64], total: Array, reason: str) -> Estimate:
    """Return total over n, and the jackknife error over the groups that have a window.

    >>> _mean_of_groups(np.array([1, 0, 1]), np.array([0.25, 0.0, 0.75]), "none")
    Estimate(value=0.5, se=nan, reason=None)
    """
    held = n > 0
    if not held.any():
        return Estimate.undefined(reason)
    n, total = n[held], total[held]
    without = (total.sum() - total) / (n.sum() - n) if len(n) > 1 else np.empty(0)
    return Estimate(float(total.sum() / n.sum()), float(group_error(without)))
