"""Similarity of two spaces over the same positions: CKA, linear maps and shared neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from theodolite.measures.formula import formula

if TYPE_CHECKING:
    from theodolite.statistics.pairs import PairSums

FEWEST = 4
"""Rows that the unbiased HSIC requires."""
RANK = 1e-10
"""Directions with less than this share of the largest variance, after every coordinate is scaled to variance 1,
are rounding: the states of a normalized layer lie in a subspace."""
NAN = float("nan")


def unbiased_hsic(sums: PairSums) -> float:
    """Return the unbiased HSIC of the linear kernels of x and y, from sums; NaN for fewer than 4 rows.

    With K = X X^T and L = Y Y^T without their diagonals it is
    (tr KL + 1'K1 1'L1 / ((n - 1)(n - 2)) - 2 1'KL1 / (n - 2)) / (n (n - 3)).
    It does not change if a constant is added to x or y.
    """
    n, x, y = sums.n, sums.sum_x, sums.sum_y
    if n < FEWEST:
        return NAN
    trace = sums.products.square().sum() - sums.square_products
    total = (x @ x - sums.squares_x) * (y @ y - sums.squares_y)
    rows = x @ sums.products @ y - x @ sums.x_by_square - y @ sums.y_by_square + sums.square_products
    return float((trace + total / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)) / (n * (n - 3)))


def biased_hsic(sums: PairSums) -> float:
    """Return the biased HSIC of the linear kernels: |centred X'Y|^2 / n^2, from sums; NaN without rows."""
    return float(sums.covariance().square().sum()) if sums.n else NAN


def normalize_hsic(cross: float, own_x: float, own_y: float) -> float:
    """Return the CKA from the HSIC of both spaces and of each with itself; NaN if one of them does not vary."""
    return cross / (own_x * own_y) ** 0.5 if own_x > 0 and own_y > 0 else NAN


@formula(
    "cka/debiased",
    "cka.cka",
    definition="HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)) of linear kernels with the unbiased HSIC of Song et al.: "
    "about 0 for unrelated vectors whatever n and dim, and may be slightly negative; 1 for rotated and scaled "
    "copies.",
    cost="one (dim, dim) product per position and pair of layers; exact, from sums over all positions",
    citation="Kornblith et al. 2019; Song et al. 2012, equation 5; Nguyen et al. 2021",
    error="jackknife over 10 groups of documents (cka_se)",
)
def debiased_cka(xy: PairSums, xx: PairSums, yy: PairSums) -> float:
    """Return the debiased linear CKA; NaN for fewer than 4 rows or if x or y does not vary."""
    return normalize_hsic(unbiased_hsic(xy), unbiased_hsic(xx), unbiased_hsic(yy))


@formula(
    "cka/biased",
    "cka.cka_biased",
    definition="|Cov(X, Y)|^2 / (|Cov(X, X)| |Cov(Y, Y)|), Frobenius norms: the usual linear CKA. Too large if n "
    "is not much larger than the dimensions: near 1 for unrelated vectors if n is below them.",
    cost="from the same sums",
    citation="Kornblith et al. 2019",
)
def biased_cka(xy: PairSums, xx: PairSums, yy: PairSums) -> float:
    """Return the usual, biased linear CKA; NaN if x or y does not vary."""
    return normalize_hsic(biased_hsic(xy), biased_hsic(xx), biased_hsic(yy))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """The map x -> (x - mean_x) @ matrix + mean_y. All float64."""

    mean_x: Tensor  # (dim_x,)
    matrix: Tensor  # (dim_x, dim_y)
    mean_y: Tensor  # (dim_y,)

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows. (rows, dim_x) -> (rows, dim_y)"""
        return (x.double() - self.mean_x) @ self.matrix + self.mean_y


@formula(
    "linear-map/least-squares",
    "maps.linear_r2",
    definition="R^2 on held-out documents, 1 - sum |y - f(x)|^2 / sum |y - mean y|^2, of the affine map f that "
    "has the least squares on the other documents.",
    cost="one eigendecomposition of (dim, dim); exact, from sums",
    citation="Theodolite",
)
def fit_linear(xy: PairSums, xx: PairSums) -> LinearMap:
    """Return the least-squares map, of least norm where x has no variance.

    Coordinates are scaled to variance 1 before small directions are dropped, since one large coordinate would hide
    the others.
    """
    covariance = xx.covariance()
    scale = covariance.diagonal().clamp_min(0).sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    values, vectors = torch.linalg.eigh(covariance / torch.outer(scale, scale))
    kept = values > RANK * values[-1]
    directions = vectors[:, kept] / scale[:, None]
    matrix = directions @ ((directions.T @ xy.covariance()) / values[kept, None])
    return LinearMap(xy.mean_x(), matrix, xy.mean_y())


@formula(
    "linear-map/procrustes",
    "maps.procrustes_r2",
    "maps.procrustes_scale",
    definition="The same of the best rotation or reflection with one scale: s U V^T from the singular vectors of "
    "Cov(X, Y), s = sum of its singular values / tr Cov(X, X). If the dimensions differ, the smaller space is "
    "padded with zeros.",
    cost="one singular value decomposition of (dim, dim); exact, from sums",
    citation="Schönemann 1966",
)
def fit_procrustes(xy: PairSums) -> tuple[LinearMap, float]:
    """Return the orthogonal map with its scale, and the scale; NaN if x does not vary."""
    left, values, right = torch.linalg.svd(xy.covariance(), full_matrices=False)
    variance = float(xy.squares_x / xy.n - (xy.sum_x / xy.n).square().sum())
    scale = float(values.sum()) / variance if variance > 0 else NAN
    return LinearMap(xy.mean_x(), scale * (left @ right), xy.mean_y()), scale


def held_out_r2(found: LinearMap, xy: PairSums, xx: PairSums) -> float:
    """Return R^2 of a map on the rows of other sums; NaN if y does not vary there.

    The error is that of y - f(x) about its own mean, plus the square of that mean.
    """
    variance = xy.variance_y()
    if not variance > 0:
        return NAN
    explained = (
        2 * (found.matrix * xy.covariance()).sum() - (found.matrix * (xx.covariance() @ found.matrix)).sum()
    )
    offset = xy.mean_y() - found(xy.mean_x()[None])[0]
    return 1 - (variance - float(explained) + float(offset @ offset)) / variance


def nearest_by_cosine(queries: Tensor, vectors: Tensor, k: int) -> Tensor:
    """Return the k rows of `vectors` with the largest cosine to each query, other than its own row. (rows, k)

    queries, vectors: (rows, dim), where row i of both is the same position.
    """
    queries, vectors = (torch.nn.functional.normalize(each.double(), dim=1) for each in (queries, vectors))
    cosines = queries @ vectors.T
    return cosines.fill_diagonal_(-torch.inf).topk(k, dim=1).indices


def _shared(one: Tensor, other: Tensor) -> float:
    """Return the mean share of the indices in a row that are also in the same row of another array. (rows, k)"""
    return float((one[:, :, None] == other[:, None, :]).any(2).double().mean())


@formula(
    "mutual-knn/cosine",
    "maps.mutual_knn",
    definition="Mean share of the k nearest positions by cosine that are the same in both spaces. By chance: "
    "k / (n - 1) (`mutual_knn_chance`).",
    cost="all cosines of the sample",
    citation="Huh et al. 2024",
)
def mutual_knn(x: Tensor, y: Tensor, k: int) -> float:
    """Return the share of the k nearest rows that x (rows, dim_x) and y (rows, dim_y) have in common."""
    return _shared(nearest_by_cosine(x, x, k), nearest_by_cosine(y, y, k))


@formula(
    "neighbour-churn/cosine",
    "maps.churn",
    definition="Share of positions whose nearest other position in the first space is not among the k nearest in "
    "the second.",
    cost="all cosines of the sample",
    citation="Theodolite",
)
def neighbour_churn(x: Tensor, y: Tensor, k: int) -> float:
    """Return the share of rows whose nearest row in x is not among the k nearest in y."""
    return 1 - _shared(nearest_by_cosine(x, x, 1), nearest_by_cosine(y, y, k))


@formula(
    "recall/mapped",
    "maps.recall_linear",
    "maps.recall_procrustes",
    "maps.recall_none",
    definition="Mean share of the k nearest vectors of a query in the second space that its mapped vector from "
    "the first space finds too; the query itself is left out. `recall_none`: without a map, for equal dimensions.",
    cost="all cosines of the sample",
    citation="Theodolite",
)
def mapped_recall(mapped: Tensor, native: Tensor, k: int) -> float:
    """Return recall@k of mapped queries against native ones. (rows, dim) each"""
    return _shared(nearest_by_cosine(native, native, k), nearest_by_cosine(mapped, native, k))
