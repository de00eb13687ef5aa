"""Intrinsic dimension and hubness, from the distances to the nearest neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, isnan, log, nan, sqrt

import torch
from torch import Tensor

from theodolite.measures.duplicates import check_vectors, distinct
from theodolite.measures.formula import formula
from theodolite.measures.neighbours import neighbourhood, two_nearest
from theodolite.measures.uncertainty import Estimate

_FEWEST = 10
"""Minimum number of distinct vectors, so that the smallest 20% of mu hold two points."""
_ROUNDING = 1e-12
"""A log mu below this is the rounding of two equal distances."""
_SUSPICIOUS = 1e-2
"""A distance below this share of the median may be one of near-duplicates, and more neighbours are searched."""


@dataclass(frozen=True, slots=True)
class TwoNN:
    """TwoNN estimates of one sample.

    keep90      slope of -log(1 - F) on log mu through the origin, F = i/n, without the largest 10% of mu
    se          standard error of keep90 for n independent ratios: keep90 c/sqrt(n) with c = 1.076
    ml          (n - 1) / sum of log mu, the unbiased maximum-likelihood form
    ml_se       its standard error for independent ratios, ml / sqrt(n - 2)
    keep20      the fit over the smallest 20% of mu, for comparison with released code that fits it so
    n           number of vectors used
    duplicates  number of vectors dropped because they repeat another
    reason      why numbers are NaN, if they are
    """

    keep90: float
    se: float
    ml: float
    ml_se: float
    keep20: float
    n: int
    duplicates: int
    reason: str | None = None


@formula(
    "twonn/ml",
    "twonn_ml",
    definition="(n - 1) / sum of log mu with mu = r2/r1: the unbiased maximum-likelihood form.",
    cost="from the distances of twonn/keep90",
    citation="Facco et al. 2017; Denti et al. 2022, The generalized ratios intrinsic dimension estimator",
    error="twonn_ml / sqrt(n - 2), for independent mu (twonn_ml_se)",
)
@formula(
    "twonn/keep20",
    "twonn_keep20",
    definition="As twonn/keep90, over the smallest 20% of mu, as code released with papers fits it.",
    cost="from the distances of twonn/keep90",
    citation="Facco et al. 2017; Razzhigaev et al. 2024, The Shape of Learning (its authors' LLM-Microscope)",
)
@formula(
    "twonn/keep90",
    "twonn",
    definition="Slope of -log(1 - F) on log mu through 0, where mu = r2/r1 and F = i/n, without the top 10%.",
    cost="exact distances between the distinct vectors of the sample; n^2 dim",
    citation="Facco et al. 2017; Razzhigaev et al. 2024, The Shape of Learning",
    error="1.076 twonn / sqrt(n), asymptotic for independent mu (twonn_se)",
)
def twonn(vectors: Tensor, *, contexts: Tensor | None = None) -> TwoNN:
    """Estimate the intrinsic dimension d from mu = r2/r1, the distances to the two nearest neighbours.

    Where the density is constant over that range, P(mu > t) = t^-d. `vectors` (vectors, dim), finite, float32,
    bfloat16, float16 or float64; equal vectors, and all but the first of each value in `contexts` (vectors,), are
    dropped and counted, since duplicates make r1 zero; so are near-duplicates (see `find_near_duplicates`).
    Distances are exact up to float64 rounding (see `neighbours`). The estimate is too small if d is large for n,
    and depends on n: it is a dimension at the scale of r2. One sample is one batch; see `batches` for averages
    over shuffled batches. Cost: n^2 dim float32 operations.

    >>> square = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0))
    >>> round(twonn(square @ torch.ones(2, 5).cumsum(1).cumsum(0).sin()).keep90)
    2

    Facco, d'Errico, Rodriguez, Laio (2017), Estimating the intrinsic dimension of datasets by a minimal
    neighborhood information, Scientific Reports 7, 12140; the form of ml: Denti et al. (2022).
    """
    check_vectors(vectors, contexts)
    vectors = vectors.detach()
    rows = distinct(vectors, contexts)
    n, duplicates = len(rows), len(vectors) - len(rows)
    if n < _FEWEST:
        return _too_few(n, duplicates)
    nearest = two_nearest(vectors[rows] if duplicates else vectors)
    if float(nearest[:, 0].min()) < _SUSPICIOUS * float(nearest[:, 1].median()):
        near = neighbourhood(vectors, contexts=contexts)
        return twonn_from_distances(near.distances[:, :2], near.duplicates)
    return twonn_from_distances(nearest, duplicates)


def twonn_from_distances(nearest: Tensor, duplicates: int = 0) -> TwoNN:
    """Return the estimates from each vector's distances to its two nearest others, ascending. (n, 2) float64

    >>> twonn_from_distances(torch.tensor([[1.0, 2.0]] * 10, dtype=torch.float64)).ml == 9 / (10 * log(2))
    True
    """
    n = len(nearest)
    return _estimates(_log_mu(nearest), duplicates) if n >= _FEWEST else _too_few(n, duplicates)


def _too_few(n: int, duplicates: int) -> TwoNN:
    reason = f"{n} distinct vectors, and TwoNN needs at least {_FEWEST}"
    return TwoNN(nan, nan, nan, nan, nan, n, duplicates, reason)


def _log_mu(two: Tensor) -> Tensor:
    """Return log r2/r1 of each vector, 0 where the two are equal up to rounding: (vectors,) float64."""
    nearest, second = two.log().unbind(1)
    log_mu = second - nearest
    return torch.where(log_mu < _ROUNDING, 0.0, log_mu)


def _estimates(log_mu: Tensor, duplicates: int = 0) -> TwoNN:
    """Return the estimates from log mu (n,) float64, in any order."""
    n = len(log_mu)
    ordered = log_mu.sort().values
    fits = [*_sums(ordered, 9 * n // 10), *_sums(ordered, n // 5), ordered.sum()]
    xy90, xx90, xy20, xx20, total = torch.stack(fits).tolist()
    keep90, keep20, ml = _ratio(xy90, xx90), _ratio(xy20, xx20), _ratio(n - 1, total)
    se, ml_se = keep90 * relative_sd(0.9) / sqrt(n), ml / sqrt(n - 2)
    return TwoNN(keep90, se, ml, ml_se, keep20, n, duplicates, _reason(keep90, keep20, ml, total))


def _sums(ordered: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Return the sums of x y and x x over the smallest `kept` values; their ratio is the slope through 0."""
    x = ordered[:kept]
    y = -torch.log1p(-torch.arange(1, kept + 1, dtype=x.dtype, device=x.device) / len(ordered))
    return x @ y, x @ x


def _ratio(over: float, under: float) -> float:
    return over / under if isfinite(under) and under > 0 else nan


def _reason(keep90: float, keep20: float, ml: float, total: float) -> str | None:
    if not isfinite(total):
        return "distances that are too small or too large for float64"
    if isnan(ml):
        return "every vector has its two nearest neighbours at the same distance"
    low = [name for name, value in (("keep90", keep90), ("keep20", keep20)) if isnan(value)]
    return f"every mu that {' and '.join(low)} would fit is 1" if low else None


def relative_sd(keep: float) -> float:
    """Return c: the fit over the smallest `keep` of n independent mu has a relative standard error of c/sqrt(n).

    The order statistics of log mu are sums of independent exponentials of mean 1/(d (n - k)), k = 0, 1, ...
    (Renyi), and to first order the relative error of the slope is -sum y (d x - y) / sum y^2. So, with
    T = -log(1 - keep),

        c^2 = integral_0^T [(1 + t) - (1 + T) e^(t - T)]^2 e^-t dt  /  (integral_0^T t^2 e^-t dt)^2.

    Neighbours are shared, so the mu of real points are not independent: on uniform cubes (n = 1,000) the measured
    standard deviation of keep90 was about 1.3 times this in dimensions 1 and 2, and 1.1 times in dimensions 5 to
    20.

    >>> round(relative_sd(0.9), 3), round(relative_sd(0.2), 3)
    (1.076, 2.413)
    """
    top, left = -log(1 - keep), 1 - keep
    square = 5 - (top**2 + 4 * top + 5) * left
    cross = (1 + top) * left * (2 * top + top**2)
    tail = (1 + top) ** 2 * left * keep
    return sqrt(square - cross + tail) / (2 - (top**2 + 2 * top + 2) * left)


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
    """Return the dimension from neighbours `scale` and 2 `scale`. distances: (n, k) float64, each row ascending.

    With m = mu^d the log likelihood is n log d + (n1 - 1) sum log(m - 1) - (2 n1 - 1) d sum log mu plus terms
    that do not depend on d. Its derivative is convex and decreasing, so Newton's method converges to its root
    from below. Neighbourhoods overlap: on Gaussians (n = 1,000, d = 2 to 20) the measured standard deviation was
    1 to 1.7 times the standard error.

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
    """Return the first derivative of the log likelihood at d, and the negative of the second."""
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
    "gride/jump",
    "scale_jump",
    definition="Largest ratio, in either direction, of the dimensions at two adjacent scales n1 and 2 n1. The "
    "dimension of a smooth shape changes slowly with scale; above 2, pairs far closer than the rest, or clusters, "
    "decide the dimension of small scales, and with it TwoNN.",
    cost="from scales.dimension",
    citation="Denti et al. 2022, The generalized ratios intrinsic dimension estimator; Theodolite",
)
def scale_jump(curve: Sequence[Estimate]) -> Estimate:
    """Return the largest ratio of the dimensions at adjacent scales, at least 1.

    >>> scale_jump([Estimate(2.0), Estimate(6.0), Estimate(5.0)]).value
    3.0
    """
    if len(curve) < 2:
        return Estimate.undefined("too few distinct vectors for two scales")
    return Estimate(max(max(a.value / b.value, b.value / a.value) for a, b in pairwise(curve)))


@formula(
    "mle/k20",
    "mle_dim",
    definition="1 / mean over vectors of 1/(k - 1) sum over j < k of log(r_k / r_j), k = 20: inverse estimates "
    "averaged.",
    cost="from the nearest neighbours of the sample's distinct vectors; n^2 dim",
    citation="Levina and Bickel 2004; averaged as MacKay and Ghahramani 2005",
    error="s.d. of the vectors' inverse estimates over sqrt(n), as if independent (mle_dim_se)",
)
def levina_bickel(distances: Tensor, k: int = LEVINA_BICKEL) -> Estimate:
    """Return the dimension from the k nearest neighbours. distances: (n, at least k) float64, each row ascending.

    Averaging the estimates themselves, as the first paper did, is biased upwards by (k - 1)/(k - 2), and by more
    if a few are large. Neighbours are shared, so the standard error is too small: on Gaussians (n = 1,000, d = 2
    to 20) the measured standard deviation was 1.2 to 1.5 times as large.

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


HUBNESS_K = 10


@formula(
    "hubness/skew-k10",
    "hubness_skew",
    "what-if.hubness_skew_cosine",
    definition="Skewness E (N - E N)^3 / sd(N)^3 of the k-occurrence N: the number of vectors that have x among "
    "their k = 10 nearest by Euclidean distance. E N is k; 0 is symmetric, large values mean a few hubs. For "
    "hubness_skew_cosine, vectors are first scaled to length 1, which gives the neighbours by cosine.",
    cost="from the nearest neighbours of the sample's distinct vectors; n^2 dim",
    citation="Radovanovic et al. 2010, Hubs in space",
    error="jackknife over vectors' counts, as if independent (hubness_skew_se)",
)
def hubness(others: Tensor, k: int = HUBNESS_K) -> Estimate:
    """Return the skewness of the k-occurrence and its standard error. others: (n, at least k) indices of vectors

    It grows with n and with the intrinsic dimension: compare at equal n. On Gaussians (n = 1,000, d = 2 to 20) the
    measured standard deviation was 0.9 to 1.1 times the standard error.

    >>> star = torch.tensor([[1], [0], [0], [0]])  # 0 is the nearest of all others, 1 of 0
    >>> round(hubness(star, 1).value, 4)  # counts 3, 1, 0, 0
    0.8165
    """
    n, known = others.shape
    if known < k:
        return Estimate.undefined(f"{n} distinct vectors, and the {k} nearest others need {k + 1}")
    counts = torch.bincount(others[:, :k].flatten(), minlength=n).double()
    skew = float(_skew(counts.sum(), counts.square().sum(), counts.pow(3).sum(), n))
    if not isfinite(skew):
        return Estimate.undefined(f"every vector is among the {k} nearest of equally many")
    without = _skew(
        counts.sum() - counts, counts.square().sum() - counts.square(), counts.pow(3).sum() - counts.pow(3), n - 1
    )
    error = sqrt((n - 1) * float(without.var(correction=0)))
    return Estimate(skew, error if isfinite(error) else nan)


def _skew(total: Tensor, squares: Tensor, cubes: Tensor, n: int) -> Tensor:
    """Return the skewness from sums of powers, which are exact for counts."""
    mean = total / n
    variance = squares / n - mean.square()
    third = cubes / n - 3 * mean * squares / n + 2 * mean.pow(3)
    variance = torch.where(variance > 1e-12 * squares / n, variance, torch.nan)
    skew: Tensor = third / variance.pow(1.5)
    return skew
