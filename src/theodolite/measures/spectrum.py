"""The spectrum: in how many dimensions the vectors live, from the eigenvalues of their covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.float64]


def eigenvalues(covariance: Array) -> Array:
    """Return the eigenvalues, largest first, rounding below 0 set to 0. (dim, dim) -> (dim,)"""
    return np.asarray(np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0))


@formula(
    "anisotropy-svd/centred",
    "anisotropy_svd",
    definition="s_1^2 / sum s_i^2, the share of variance along the first direction, centred at their mean.",
    cost="exact; one dim x dim matrix a layer, and its eigenvalues",
    citation="Razzhigaev et al. 2024, The Shape of Learning",
)
def anisotropy_svd(spectrum: Array) -> float:
    """Return the largest eigenvalue's share, NaN where nothing varies. (dim,)

    >>> anisotropy_svd(np.array([3.0, 1.0]))
    0.75
    """
    return float(spectrum[0] / spectrum.sum()) if spectrum.sum() > 0 else float("nan")


@formula(
    "participation-ratio/covariance",
    "participation_ratio",
    definition="(sum l)^2 / sum l^2 of the covariance's eigenvalues.",
    cost="exact; from the spectrum",
    citation="Gao et al. 2017",
)
def participation_ratio(spectrum: Array) -> float:
    """Return the participation ratio, between 1 and dim; NaN where nothing varies. (dim,)

    >>> participation_ratio(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    squares = np.square(spectrum).sum()
    return float(spectrum.sum() ** 2 / squares) if squares > 0 else float("nan")


@formula(
    "effective-rank/eigenvalues",
    "effective_rank",
    definition="exp of the entropy of the covariance's eigenvalues over their sum (shares of variance).",
    cost="exact; from the spectrum",
    citation="Roy and Vetterli 2007 (there of singular values)",
)
def effective_rank(spectrum: Array) -> float:
    """Return exp(-sum p log p) with p the shares of variance; NaN where nothing varies. (dim,)"""
    if spectrum.sum() <= 0:
        return float("nan")
    share = spectrum[spectrum > 0] / spectrum.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


@formula(
    "iso-score/covariance",
    "iso_score",
    definition="(PR - 1)/(dim - 1) with PR the participation ratio: 0 on a line, 1 when all axes are equal.",
    cost="exact; from the spectrum",
    citation="Rudman et al. 2022, in closed form",
)
def iso_score(spectrum: Array) -> float:
    """Return IsoScore; NaN in one dimension. (dim,)

    >>> round(iso_score(np.array([4.0, 1.0, 1.0, 1.0, 1.0])), 9)
    0.55
    """
    return (participation_ratio(spectrum) - 1) / (len(spectrum) - 1) if len(spectrum) > 1 else float("nan")
