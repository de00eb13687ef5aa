"""The intrinsic dimension by two nearest neighbours (TwoNN)."""

from dataclasses import dataclass
from math import isfinite, isnan, log, nan, sqrt

import torch
from torch import Tensor

from theodolite.errors import TheodoliteError
from theodolite.measures.duplicates import distinct
from theodolite.measures.formula import formula
from theodolite.measures.neighbours import two_nearest

_FEWEST = 10
"""Distinct vectors without which the lowest 20% of mu hold no two points."""
_ROUNDING = 1e-12
"""A log mu under this is the rounding of two equal distances."""


@dataclass(frozen=True, slots=True)
class TwoNN:
    """TwoNN estimates of one sample.

    keep90      slope of -log(1 - F) on log mu through the origin, F = i/n, the largest 10% of mu left out
    se          standard error of keep90, were the n ratios independent: keep90 c/sqrt(n) with c = 1.076
    ml          (n - 1) / sum of log mu, the maximum-likelihood form made unbiased
    ml_se       its standard error likewise, ml / sqrt(n - 2)
    keep20      the fit over the smallest 20% of mu, to compare with code that was released so
    n           vectors used
    duplicates  vectors left out because they repeat another
    reason      why numbers are NaN, where they are
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
    definition="(n - 1) / sum of log mu with mu = r2/r1: the maximum-likelihood form, made unbiased.",
    cost="from the distances of twonn/keep90",
    citation="Facco et al. 2017; Denti et al. 2022, The generalized ratios intrinsic dimension estimator",
    error="twonn_ml / sqrt(n - 2), for independent mu (twonn_ml_se)",
)
@formula(
    "twonn/keep20",
    "twonn_keep20",
    definition="As twonn/keep90 over the smallest 20% of mu, as code released with papers fits it.",
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
    bfloat16, float16 or float64; equal vectors, and all but the first of each value in `contexts` (vectors,),
    are dropped and counted, since repeats make r1 zero. Distances are exact to float64 rounding (see
    `neighbours`). The estimate falls short where d is large for n, and depends on n: it is a dimension at the
    scale of r2. One sample is one batch; averaging shuffled batches of at least 4,096, as papers do, is left to
    the caller. Cost: n^2 dim float32 operations.

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
    return twonn_of(two_nearest(vectors[rows] if duplicates else vectors), duplicates)


def twonn_of(nearest: Tensor, duplicates: int = 0) -> TwoNN:
    """Return the estimates from each vector's distances to its two nearest others, ascending. (n, 2) float64

    >>> twonn_of(torch.tensor([[1.0, 2.0]] * 10, dtype=torch.float64)).ml == 9 / (10 * log(2))
    True
    """
    n = len(nearest)
    return _estimates(_log_mu(nearest), duplicates) if n >= _FEWEST else _too_few(n, duplicates)


def _too_few(n: int, duplicates: int) -> TwoNN:
    reason = f"{n} distinct vectors, and TwoNN needs at least {_FEWEST}"
    return TwoNN(nan, nan, nan, nan, nan, n, duplicates, reason)


def check_vectors(vectors: Tensor, contexts: Tensor | None) -> None:
    """Refuse vectors that are not (vectors, dim), floating and finite, or contexts that are not one each."""
    if vectors.ndim != 2 or not vectors.is_floating_point():
        came = f"{tuple(vectors.shape)} {vectors.dtype}"
        raise TheodoliteError(f"vectors should be (vectors, dim) of a floating type, not {came}.")
    if contexts is not None and contexts.shape != vectors.shape[:1]:
        raise TheodoliteError(
            f"contexts should hold one integer a vector, ({len(vectors)},), not {tuple(contexts.shape)}."
        )
    finite = vectors.isfinite().all(1)
    if not finite.all():
        bad = len(vectors) - int(finite.sum())
        raise TheodoliteError(
            f"vectors should be finite, and {bad} of {len(vectors)} rows are not; leave those out first."
        )


def _log_mu(two: Tensor) -> Tensor:
    """Return log r2/r1 of each vector, 0 where the two are equal to rounding: (vectors,) float64."""
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
    """Return the sums of x y and x x whose ratio is the slope through the origin, over the smallest `kept`."""
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
    """Return c, where the fit over the smallest `keep` of n independent mu has a relative error of c/sqrt(n).

    The order statistics of log mu are sums of independent exponentials of mean 1/(d (n - k)), k = 0, 1, ...
    (Renyi), and to first order the relative error of the slope is -sum y (d x - y) / sum y^2. So, with
    T = -log(1 - keep),

        c^2 = integral_0^T [(1 + t) - (1 + T) e^(t - T)]^2 e^-t dt  /  (integral_0^T t^2 e^-t dt)^2.

    Neighbours are shared, so the mu of real points are not independent: on uniform cubes (n = 1,000) keep90 was
    seen to spread about 1.3 times this in dimensions 1 and 2, and 1.1 times in dimensions 5 to 20.

    >>> round(relative_sd(0.9), 3), round(relative_sd(0.2), 3)
    (1.076, 2.413)
    """
    top, left = -log(1 - keep), 1 - keep
    square = 5 - (top**2 + 4 * top + 5) * left
    cross = (1 + top) * left * (2 * top + top**2)
    tail = (1 + top) ** 2 * left * keep
    return sqrt(square - cross + tail) / (2 - (top**2 + 2 * top + 2) * left)
