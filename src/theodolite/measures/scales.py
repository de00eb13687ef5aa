"""Dimension against scale: by ratios of distances to neighbours n1 and 2 n1 (Gride), and by Levina and Bickel."""

from math import isfinite, sqrt

import torch
from torch import Tensor

from theodolite.measures.estimate import Estimate
from theodolite.measures.formula import formula

SCALES = (1, 2, 4, 8, 16)
"""n1 of the curve, each with n2 = 2 n1."""
LEVINA_BICKEL = 20
"""Neighbours of the maximum-likelihood dimension."""
_STEPS = 100


@formula(
    "gride/n1-2n1",
    "scales.dimension",
    "scales.se",
    definition="Dimension d of greatest likelihood given mu = r_2n1 / r_n1 of every vector, where mu^-d is "
    "Beta(n1, n1) distributed; at n1 = 1 this is TwoNN's n / sum log mu.",
    cost="from the nearest neighbours of the sample's distinct vectors; n^2 dim",
    citation="Denti et al. 2022, The generalized ratios intrinsic dimension estimator",
    error="1/sqrt of the observed information, for independent mu (scales.parquet's se)",
)
def gride(distances: Tensor, scale: int) -> Estimate:
    """Return the dimension at the scale of neighbour 2 `scale`. distances: (n, k) float64, each row ascending.

    With m = mu^d the log likelihood is n log d + (n1 - 1) sum log(m - 1) - (2 n1 - 1) d sum log mu and what does
    not depend on d; its derivative is convex and falls, so Newton's steps go up to its root. Neighbourhoods
    overlap: on Gaussians (n = 1,000, d = 2 to 20) estimates were seen to spread 1 to 1.7 times the standard error.

    >>> distances = torch.tensor([[1.0, 2.0], [1.0, 8.0]], dtype=torch.float64)
    >>> round(gride(distances, 1).value * torch.tensor(2.0).log().item(), 6)  # 2 / (log 2 + log 8)
    0.5
    """
    n, k = distances.shape
    if k < 2 * scale:
        return Estimate.undefined(f"{n} distinct vectors, and a scale of {scale} needs {2 * scale + 1}")
    log_mu = distances[:, 2 * scale - 1].log() - distances[:, scale - 1].log()
    total = float(log_mu.sum())
    if not isfinite(total):
        return Estimate.undefined("distances that are too small or too large for float64")
    if total <= 0:
        return Estimate.undefined(f"every vector has neighbours {scale} and {2 * scale} at the same distance")
    d = n / total * sum(1 / j for j in range(scale, 2 * scale))  # E log mu = (1/n1 + ... + 1/(2 n1 - 1)) / d
    for _ in range(_STEPS):
        slope, information = _derivatives(d, log_mu, total, scale)
        step = slope / information
        d = max(d + step, d / 2)
        if abs(step) <= 1e-13 * d:
            break
    return Estimate(d, 1 / sqrt(_derivatives(d, log_mu, total, scale)[1]))


def _derivatives(d: float, log_mu: Tensor, total: float, scale: int) -> tuple[float, float]:
    """Return the log likelihood's derivative at d, and its second derivative with the sign turned."""
    n = len(log_mu)
    first, second = n / d - (2 * scale - 1) * total, n / d**2
    if scale > 1:
        power = -d * log_mu
        less = torch.expm1(power).neg_()  # 1 - 1/m
        rising = log_mu / less
        falling = power.exp_().mul_(rising.square())
        if float(less.min()) <= 0:  # log mu = 0: the limits
            tied = less <= 0
            rising, falling = rising.masked_fill_(tied, 1 / d), falling.masked_fill_(tied, 1 / d**2)
        first += (scale - 1) * float(rising.sum())
        second += (scale - 1) * float(falling.sum())
    return first, second


@formula(
    "mle/k20",
    "mle_dim",
    definition="1 / mean over vectors of 1/(k - 1) sum over j < k of log(r_k / r_j), k = 20: inverse estimates "
    "averaged.",
    cost="from the nearest neighbours of the sample's distinct vectors; n^2 dim",
    citation="Levina and Bickel 2004; averaged as MacKay and Ghahramani 2005",
    error="the spread of the vectors' inverse estimates over sqrt(n), as if independent (mle_dim_se)",
)
def levina_bickel(distances: Tensor, k: int = LEVINA_BICKEL) -> Estimate:
    """Return the dimension at the scale of neighbour k. distances: (n, at least k) float64, each row ascending.

    Averaging the estimates themselves, as the first paper did, is biased upwards by (k - 1)/(k - 2) and more
    where a few are large. Neighbours are shared, so the standard error understates: on Gaussians (n = 1,000,
    d = 2 to 20) estimates were seen to spread 1.2 to 1.5 times as far.

    >>> distances = torch.tensor([[1.0, 2.0, 4.0]] * 3, dtype=torch.float64)
    >>> round(1 / levina_bickel(distances, 3).value / torch.tensor(2.0).log().item(), 6)  # (2 + 1)/2 log 2
    1.5
    """
    n, known = distances.shape
    if known < k:
        return Estimate.undefined(f"{n} distinct vectors, and the {k} nearest others need {k + 1}")
    inverse = (distances[:, k - 1 : k].log() - distances[:, : k - 1].log()).sum(1) / (k - 1)
    mean, spread = float(inverse.mean()), float(inverse.std())
    if not isfinite(mean):
        return Estimate.undefined("distances that are too small or too large for float64")
    if mean <= 0:
        return Estimate.undefined(f"every vector has its {k} nearest others at the same distance")
    return Estimate(1 / mean, spread / sqrt(n) / mean**2)
