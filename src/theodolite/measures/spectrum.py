"""Spectral measures: how many dimensions the vectors occupy, from the eigenvalues of their covariance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.measures.cuda import lanczos
from theodolite.measures.formula import formula

Array = NDArray[np.float64]
SHARE_ROUNDING = 1e-12
"""How far rounding may leave a cumulative share below the share asked for."""
PRODUCT_ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""Relative rounding of an entry of the scatter matrix: products are float32, and added over batches in float64.

The 4 is a margin: measured on matrices with zero eigenvalues, the error was at most 0.1 of the bound that
`effective_rank_singular` makes of this, and 0.4 of it with massive vectors.
"""


def eigenvalues(covariance: Array | Tensor) -> Array:
    """Return the eigenvalues, largest first, with negative rounding set to 0. (dim, dim) -> (dim,)

    The eigenvalues of a tensor are computed on its device.
    """
    values = (
        _solve(torch.linalg.eigvalsh, covariance).cpu().numpy()
        if isinstance(covariance, Tensor)
        else np.linalg.eigvalsh(covariance)
    )
    return np.asarray(np.maximum(values[::-1], 0.0))


def eigenvectors(moment: Tensor) -> tuple[Array, Tensor]:
    """Return the eigenvalues, largest first and not below 0, and unit eigenvectors as columns, smallest first.

    The eigenvectors are on the device of the matrix. (dim, dim) -> (dim,), (dim, dim)
    """
    values, vectors = _solve(torch.linalg.eigh, moment)
    return np.asarray(np.maximum(values.cpu().numpy()[::-1], 0.0)), vectors.to(moment.device)


def _solve(solve: Callable[[Tensor], Any], matrix: Tensor) -> Any:
    """Solve on the matrix's device, or on the CPU if the device's library runs out of memory.

    The library does not use memory that PyTorch has reserved and does not need, so that is freed first.
    """
    try:
        return solve(matrix)
    except RuntimeError:
        if matrix.device.type == "cpu":
            raise
    with suppress(RuntimeError):
        torch.cuda.empty_cache()
        return solve(matrix)
    return solve(matrix.cpu())


def few_vectors_spectrum(y: Tensor, centre: Tensor) -> tuple[Array, Array, Tensor]:
    """Return the spectra of the covariance and of the second moment of at most `dim` vectors c + y, and axes.

    Both come from the (n, n) products of the vectors with each other, in float64; the other eigenvalues are 0.
    Axes are unit eigenvectors of the second moment as columns, largest first, and a column of 0 for all
    directions in which no vector has a part. (n, dim), (dim,) -> (dim,), (dim,), (dim, any)

    >>> y = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], dtype=torch.float64)
    >>> centred, second, axes = few_vectors_spectrum(y, torch.tensor([0.0, 0.0, 2.0]))
    >>> centred.tolist(), second.tolist(), axes.T.abs().tolist()[0]
    ([1.0, 0.0, 0.0], [4.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    """
    n, dim = y.shape
    deviations, x = y - y.mean(dim=0), y + centre.to(y)
    centred = eigenvalues(deviations @ deviations.T / n)
    second, combinations = eigenvectors(x @ x.T / n)
    kept = int((second > n * np.finfo(np.float64).eps * second.max(initial=0.0)).sum())  # others are rounding
    axes = torch.nn.functional.normalize(x.T @ combinations.flip(1)[:, :kept], dim=0)
    if kept < dim:
        axes = torch.cat([axes, axes.new_zeros(dim, 1)], dim=1)
    return np.pad(centred, (0, dim - n)), np.pad(second, (0, dim - n)), axes


SMALL_MATRIX, SMALL_ON_GPU = 2048, 1024
"""Up to this size all eigenvalues take no longer than the largest."""
LANCZOS_STEPS, LANCZOS_CHECK = 512, 32
LANCZOS_ERROR = 1e-12


def largest_eigenvalue(matrix: Tensor) -> float:
    """Return the largest eigenvalue of a symmetric matrix without negative ones, on its device. (dim, dim)

    Lanczos' method, every vector orthogonalised against all before it, from a fixed random start. It stops
    when the residual proves a relative error below 1e-12; where that takes too long, all eigenvalues are computed.
    Cost: 2 dim^2 operations per step, usually 50 to 200 steps.

    >>> largest_eigenvalue(torch.diag(torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)))
    3.0
    """
    dim = len(matrix)
    if dim <= (SMALL_ON_GPU if matrix.is_cuda else SMALL_MATRIX):
        return float(eigenvalues(matrix)[0])
    start = torch.randn(dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    basis = matrix.new_zeros(LANCZOS_STEPS + 1, dim, dtype=torch.float64)
    basis[0] = to_device(start / start.norm(), matrix.device)
    symmetric, found = matrix.double(), basis.new_empty(2, LANCZOS_STEPS)
    extend = lanczos.extend if lanczos.is_supported(matrix) else _extend
    for known in range(1, LANCZOS_STEPS + 1):
        extend(basis, torch.mv(symmetric, basis[known - 1]), found, known)
        if known % LANCZOS_CHECK == 0:
            largest = _proven_largest(*found[:, :known].cpu().numpy())
            if largest is not None:
                return largest
    return float(eigenvalues(matrix)[0])


def _extend(basis: Tensor, y: Tensor, found: Tensor, known: int) -> None:
    """Make y orthogonal to the first `known` rows of the basis, and write its direction as the next row.

    found[:, known - 1] gets the product of y with the last known row, and the length that is left.
    basis: (any, dim), y: (dim,), found: (2, any)
    """
    products = torch.mv(basis[:known], y)
    y = torch.addmv(y, basis[:known].T, products, alpha=-1)
    found[0, known - 1] = products[-1]
    length = torch.linalg.vector_norm(y, out=found[1, known - 1])
    torch.div(y, length, out=basis[known])


def _proven_largest(diagonal: Array, side: Array) -> float | None:
    """Return the largest eigenvalue of the projected matrix if its residual is small; None otherwise.

    `diagonal` and `side` are its diagonals. After a side of 0, or of rounding, they mean nothing.
    """
    ended = np.flatnonzero(~(side > np.finfo(np.float64).eps * np.nanmax(np.abs(diagonal))))
    count = int(ended[0]) + 1 if len(ended) else len(diagonal)
    beside = np.diag(side[: count - 1], 1)
    values, vectors = np.linalg.eigh(np.diag(diagonal[:count]) + beside + beside.T)  # scipy's blocks other threads
    largest, residual = float(values[-1]), float(side[count - 1] * abs(vectors[-1, -1]))
    apart = largest - float(values[-2]) if count > 1 else largest
    error = min(residual, residual**2 / apart) if apart > 0 else residual
    return max(largest, 0.0) if len(ended) or error <= LANCZOS_ERROR * largest else None


@formula(
    "spectrum/sample-gram",
    "sample_anisotropy_svd",
    "sample_participation_ratio",
    "sample_effective_rank",
    definition="The same measures of the sample's covariance, from the products of its centred vectors with each "
    "other. Computed only where vectors are too wide for a dim x dim matrix. n vectors span at most n - 1 "
    "dimensions.",
    cost="from the sample; n^2 dim",
    citation="the columns of these names without sample_",
)
def gram_eigenvalues(x: Array) -> Array:
    """Return the n largest eigenvalues of the covariance of n wide vectors, largest first. (n, dim) -> (n,)

    >>> gram_eigenvalues(np.array([[1.0, 0, 0], [-1.0, 0, 0]]))
    array([1., 0.])
    """
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    return eigenvalues(centred @ centred.T / len(x))


@formula(
    "anisotropy-svd/centred",
    "anisotropy_svd",
    definition="s_1^2 / sum s_i^2 of the vectors centred at their mean: the share of variance along the first "
    "principal direction.",
    cost="exact; one dim x dim matrix per layer, or up to dim vectors, and its eigenvalues",
    citation="Razzhigaev et al. 2024, The Shape of Learning",
)
def anisotropy_svd(spectrum: Array) -> float:
    """Return the largest eigenvalue's share of their sum; NaN where nothing varies. (dim,)

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
    """Return (sum l)^2 / sum l^2, between 1 and dim; NaN where nothing varies. (dim,)

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
    "effective-rank/singular-values",
    "effective_rank_singular",
    definition="exp of the entropy of the centred vectors' singular values over their sum: of sqrt(l), not of l. "
    "Eigenvalues l below 4 eps sum(l) / sqrt(dim), with eps = 2^-23, count as 0: that is the rounding of the "
    "scatter matrix, whose products are float32.",
    cost="exact; from the spectrum",
    citation="Roy and Vetterli 2007",
)
def effective_rank_singular(spectrum: Array) -> float:
    """Return exp(-sum p log p) with p the shares of the singular values sqrt(l); NaN where nothing varies. (dim,)

    It weighs small directions more than `effective_rank` does. The root of an eigenvalue that is 0 but for
    rounding is not small, so eigenvalues below the rounding of the scatter matrix count as 0. Errors of relative
    size `PRODUCT_ROUNDING` in entries of mean size sum(l)/dim form a matrix of norm about sqrt(dim) times that.

    >>> round(effective_rank_singular(np.array([4.0, 1.0])), 6)  # shares 2/3 and 1/3
    1.889882
    >>> effective_rank_singular(np.array([1.0, 1.0, 1e-9]))  # without the rule: 2.0004
    2.0
    """
    rounding = PRODUCT_ROUNDING * spectrum.sum() / np.sqrt(len(spectrum))
    return effective_rank(np.sqrt(np.where(spectrum > rounding, spectrum, 0.0)))


@formula(
    "stable-rank/uncentred",
    "stable_rank",
    definition="|X|_F^2 / |X|_2^2: trace over largest eigenvalue of E x x^T, not centred (centred it is "
    "1/anisotropy_svd).",
    cost="exact; one more dim x dim eigenproblem per layer",
    citation="Rudelson and Vershynin 2007 (there the numerical rank)",
)
def stable_rank(spectrum: Array) -> float:
    """Return trace over largest eigenvalue of the second moment; NaN where all vectors are 0. (dim,)

    >>> stable_rank(np.array([2.0, 1.0, 1.0]))
    2.0
    """
    return 1 / anisotropy_svd(spectrum)


@formula(
    "pca-dimension/share",
    "pca_dim_90",
    "pca_dim_95",
    "pca_dim_99",
    definition="Fewest principal components whose shares of the variance add up to at least 90, 95 or 99%.",
    cost="exact; from the spectrum",
    citation="Jolliffe 2002, Principal Component Analysis, section 6.1.1",
)
def pca_dimension(spectrum: Array, share: float) -> float:
    """Return the fewest components that hold at least this share; NaN where nothing varies. (dim,)

    A cumulative share below the given share only by rounding counts as reaching it.

    >>> pca_dimension(np.array([9.0, 0.5, 0.5]), 0.9), pca_dimension(np.array([9.0, 0.5, 0.5]), 0.91)
    (1.0, 2.0)
    """
    if spectrum.sum() <= 0:
        return float("nan")
    held = np.cumsum(spectrum) / spectrum.sum()
    return float(np.searchsorted(held, share - SHARE_ROUNDING) + 1)


@formula(
    "spectrum/shares",
    "spectra.eigenvalue",
    "spectra.share",
    "spectra.cumulative",
    definition="The covariance's eigenvalues, largest first; each over their sum; and the cumulative sum of "
    "these shares.",
    cost="exact; from the spectrum",
    citation="Razzhigaev et al. 2024, The Shape of Learning",
)
def shares(spectrum: Array) -> tuple[Array, Array]:
    """Return each eigenvalue's share of their sum and the cumulative share; NaN where nothing varies. (dim,) each

    >>> shares(np.array([3.0, 1.0]))
    (array([0.75, 0.25]), array([0.75, 1.  ]))
    """
    total = spectrum.sum()
    share = spectrum / total if total > 0 else np.full_like(spectrum, np.nan)
    return share, np.cumsum(share)


@formula(
    "iso-score/covariance",
    "iso_score",
    definition="(PR - 1)/(dim - 1) with PR the participation ratio: 0 on a line, 1 when all axes are equal.",
    cost="exact; from the spectrum",
    citation="Rudman et al. 2022, in closed form",
)
def iso_score(spectrum: Array) -> float:
    """Return (PR - 1)/(dim - 1); NaN in one dimension. (dim,)

    >>> round(iso_score(np.array([4.0, 1.0, 1.0, 1.0, 1.0])), 9)
    0.55
    """
    return (participation_ratio(spectrum) - 1) / (len(spectrum) - 1) if len(spectrum) > 1 else float("nan")
