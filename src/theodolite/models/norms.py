"""Identify norms by what they compute: a module that scales every row to one length, whatever its name."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.models.device_map import load_offloaded

ROWS = 24
SMALL = 4  # parameters per coordinate: a norm has one or two, a projection hundreds
FITS = 1e-5  # relative error of the fit: norms that compute in float32 reach 1e-7


@dataclass(frozen=True, eq=False)
class Norm:
    """The function of a norm: x = gamma z + beta.

    z is the row minus its mean, over its standard deviation (LayerNorm), or the row over its root mean square
    (RMSNorm).
    gamma and beta are the effective values, not the stored ones: Gemma stores w and applies 1 + w.
    """

    kind: str  # LayerNorm, or RMSNorm, which does not subtract the mean
    gamma: Tensor  # (dim,) float64
    beta: Tensor  # (dim,) float64; 0 for most RMSNorms
    eps: float  # added to the mean square; to two digits


@torch.no_grad()
def identify_norm(module: nn.Module, dim: int) -> Norm | None:
    """Return the function of a module if it is a norm of rows of this width, else None.

    The module is run in float64 on rows of different lengths and means. If each coordinate of the output is a
    linear function of z, the module is a norm, and slope and intercept are gamma and beta.
    """
    twin = copy_if_small(module, dim)
    return None if twin is None else identify_copy(twin, dim)


def copy_if_small(module: nn.Module, dim: int) -> nn.Module | None:
    """Return a copy on the CPU of a module that may be a norm of this width, for `identify_copy`; else None."""
    small = sum(parameter.numel() for parameter in module.parameters()) <= SMALL * dim
    return _copy_without_hooks(module) if small and dim >= 2 else None


@torch.no_grad()
def identify_copy(twin: nn.Module, dim: int) -> Norm | None:
    """Do what `identify_norm` does, with a copy of the module."""
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, dim, generator=random, dtype=torch.float64)
    rows += torch.randn(ROWS, 1, generator=random, dtype=torch.float64)
    rows *= torch.logspace(3, 6, ROWS, dtype=torch.float64)[:, None]  # large, so that eps has no effect
    out = _apply(twin, rows)
    if out is None or not out.isfinite().all() or not out.any():
        return None
    for kind, z in (("LayerNorm", _standardize(rows)), ("RMSNorm", _scale_to_unit(rows))):
        gamma, beta = _fit_lines(z, out)
        if (out - gamma * z - beta).norm() <= FITS * out.norm():
            if kind == "RMSNorm" and beta.abs().max() <= FITS * gamma.abs().max():
                beta = torch.zeros_like(beta)  # the rounding error of float32 where there is no beta
            return Norm(kind, gamma, beta, _estimate_eps(twin, gamma, beta))
    return None


def _copy_without_hooks(module: nn.Module) -> nn.Module:
    """Return a copy in float64 without hooks."""
    with load_offloaded(module):
        twin = deepcopy(module).cpu().double().eval()
    for part in twin.modules():
        for name in ("_hf_hook", "_old_forward", "forward"):  # accelerate replaces `forward` of an instance
            part.__dict__.pop(name, None)
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
    return twin


def _apply(module: nn.Module, rows: Tensor) -> Tensor | None:
    """Return the output for these rows; None if the module takes other inputs. (rows, dim) -> (rows, dim)"""
    try:
        out: Any = module(rows[None])
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    matches = isinstance(out, Tensor) and out.shape == (1, *rows.shape) and out.is_floating_point()
    return out[0].double() if matches else None


def _standardize(rows: Tensor) -> Tensor:
    return _scale_to_unit(rows - rows.mean(dim=1, keepdim=True))


def _scale_to_unit(rows: Tensor) -> Tensor:
    return rows / rows.square().mean(dim=1, keepdim=True).sqrt()


def _fit_lines(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Fit y = slope x + intercept by least squares for each coordinate. (rows, dim) each -> (dim,), (dim,)"""
    dx, dy = x - x.mean(dim=0), y - y.mean(dim=0)
    slope = (dx * dy).sum(dim=0) / dx.square().sum(dim=0)
    return slope, y.mean(dim=0) - slope * x.mean(dim=0)


def _estimate_eps(module: nn.Module, gamma: Tensor, beta: Tensor) -> float:
    """Return the value added to the mean square, estimated from the outputs for rows of tiny mean square."""
    row = _standardize(torch.linspace(-1, 1, len(gamma), dtype=torch.float64)[None])
    squares = torch.logspace(-16, 0, 33, dtype=torch.float64)
    out = _apply(module, squares.sqrt()[:, None] * row)
    if out is None:
        return 0.0
    shrinkage = ((out - beta).norm(dim=1) / (gamma * row).norm()).clamp(1e-9, 1)
    at = int((shrinkage - 0.7).abs().argmin())
    eps = float(squares[at] * (1 / shrinkage[at] ** 2 - 1))
    return float(f"{eps:.2g}") if shrinkage[at] < 0.99 else 0.0
