"""References for sums on a GPU: two passes in float64, and float32 sums, which are not accurate enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def two_passes(x: Tensor, unit: Tensor, keep: Tensor) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Return codes, V and Q of every unit in float64: first the mean, then the squares about it."""
    x, unit = x[keep], unit[keep]
    codes, of = unit.unique(return_inverse=True)
    n = torch.bincount(of, minlength=len(codes)).double()
    mean = torch.zeros(len(codes), x.shape[1], dtype=torch.float64, device=x.device)
    v, q = (torch.zeros(len(codes), dtype=torch.float64, device=x.device) for _ in range(2))
    for rows in torch.arange(len(x), device=x.device).split(32768):
        mean.index_add_(0, of[rows], x[rows].double())
    mean /= n[:, None]
    for rows in torch.arange(len(x), device=x.device).split(32768):
        here = x[rows].double()
        q.index_add_(0, of[rows], here.square().sum(1))
        v.index_add_(0, of[rows], (here - mean[of[rows]]).square().sum(1))
    return codes.cpu().numpy(), (v / n).cpu().numpy(), (q / n).cpu().numpy()


def raw_float32(x: Tensor, unit: Tensor, keep: Tensor) -> NDArray[np.float64]:
    """Return V from float32 sums of x and |x|^2, which are not accurate enough."""
    x, unit = x[keep].float(), unit[keep]
    codes, of = unit.unique(return_inverse=True)
    n = torch.bincount(of, minlength=len(codes)).float()
    total = torch.zeros(len(codes), x.shape[1], device=x.device).index_add_(0, of, x)
    squares = torch.zeros(len(codes), device=x.device).index_add_(0, of, x.square().sum(1))
    found: NDArray[np.float64] = (squares / n - (total / n[:, None]).square().sum(1)).double().cpu().numpy()
    return found


def covariance_of(x: Tensor, keep: Tensor) -> Tensor:
    x = x[keep]
    mean = torch.stack([part.double().sum(0) for part in x.split(32768)]).sum(0) / len(x)
    total = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64, device=x.device)
    for part in x.split(32768):
        y = part.double() - mean
        total += y.T @ y
    return (total / len(x)).cpu()


def spectral_errors(found: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, float]:
    ours, expected = np.linalg.eigvalsh(found), np.linalg.eigvalsh(truth)

    def measures(values: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = np.clip(values / values.sum(), 1e-300, None)
        entropy = -(shares * np.log(shares)).sum()
        return np.array([shares[-1], 1 / (shares**2).sum(), np.exp(entropy)])

    errors = np.abs(measures(ours) / measures(expected) - 1)
    names = ("anisotropy_svd", "participation_ratio", "effective_rank")
    moves = truth.diagonal() > 0
    coordinates = np.abs(found.diagonal()[moves] / truth.diagonal()[moves] - 1).max()
    return dict(zip(names, errors.tolist(), strict=True)) | {"worst_coordinate_variance": float(coordinates)}
