"""Norms told by what they do: a module that scales every row to one length is one, whatever it is called."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ROWS = 24
SMALL = 4  # numbers a coordinate: a norm has one or two, a projection hundreds
FITS = 1e-5  # of the output: norms that compute in float32 leave 1e-7


@dataclass(frozen=True, eq=False)
class Norm:
    """What a norm does: x = gamma z + beta, z the row less its mean over its deviation, or over its length.

    gamma and beta are those that act, not those stored: Gemma's stored weight w acts as 1 + w.
    """

    kind: str  # LayerNorm, or RMSNorm where the mean stays
    gamma: Tensor  # (dim,) float64
    beta: Tensor  # (dim,) float64; 0 for most RMSNorms
    eps: float  # added to the mean square; to two digits


@torch.no_grad()
def norm_of(module: nn.Module, dim: int) -> Norm | None:
    """Return what a module does if it is a norm of rows of this width, else None.

    It is tried, in float64, on rows of many sizes with means of their own. If each coordinate of what comes out
    lies on a line over z, the module is a norm, and the line's slope and intercept are gamma and beta.
    """
    if sum(parameter.numel() for parameter in module.parameters()) > SMALL * dim or dim < 2:
        return None
    twin = _alone(module)
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, dim, generator=random, dtype=torch.float64)
    rows += torch.randn(ROWS, 1, generator=random, dtype=torch.float64)
    rows *= torch.logspace(3, 6, ROWS, dtype=torch.float64)[:, None]  # large, so that eps does not show
    out = _tried(twin, rows)
    if out is None or not out.isfinite().all() or not out.any():
        return None
    for kind, z in (("LayerNorm", _standard(rows)), ("RMSNorm", _unit(rows))):
        gamma, beta = _lines(z, out)
        if (out - gamma * z - beta).norm() <= FITS * out.norm():
            if kind == "RMSNorm" and beta.abs().max() <= FITS * gamma.abs().max():
                beta = torch.zeros_like(beta)  # what float32 leaves of a beta that is not there
            return Norm(kind, gamma, beta, _eps(twin, gamma, beta))
    return None


def _alone(module: nn.Module) -> nn.Module:
    """Return a copy in float64 that nobody listens to."""
    twin = deepcopy(module).cpu().double().eval()
    for part in twin.modules():
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
    return twin


def _tried(module: nn.Module, rows: Tensor) -> Tensor | None:
    """Return what becomes of the rows; None if the module takes something else. (rows, dim) -> (rows, dim)"""
    try:
        out: Any = module(rows[None])
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    alike = isinstance(out, Tensor) and out.shape == (1, *rows.shape) and out.is_floating_point()
    return out[0].double() if alike else None


def _standard(rows: Tensor) -> Tensor:
    away = rows - rows.mean(dim=1, keepdim=True)
    return _unit(away)


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.square().mean(dim=1, keepdim=True).sqrt()


def _lines(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Fit y = slope x + intercept by least squares, each coordinate alone. (rows, dim) each -> (dim,), (dim,)"""
    dx, dy = x - x.mean(dim=0), y - y.mean(dim=0)
    slope = (dx * dy).sum(dim=0) / dx.square().sum(dim=0)
    return slope, y.mean(dim=0) - slope * x.mean(dim=0)


def _eps(module: nn.Module, gamma: Tensor, beta: Tensor) -> float:
    """Return what is added to the mean square, seen by how much rows of tiny mean square come out too short."""
    row = _standard(torch.linspace(-1, 1, len(gamma), dtype=torch.float64)[None])
    squares = torch.logspace(-16, 0, 33, dtype=torch.float64)
    out = _tried(module, squares.sqrt()[:, None] * row)
    if out is None:
        return 0.0
    short = ((out - beta).norm(dim=1) / (gamma * row).norm()).clamp(1e-9, 1)
    at = int((short - 0.7).abs().argmin())
    eps = float(squares[at] * (1 / short[at] ** 2 - 1))
    return float(f"{eps:.2g}") if short[at] < 0.99 else 0.0
