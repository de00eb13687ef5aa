"""Batches: how they are cut, the anisotropy of each, mean and spread."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests import oracles

from theodolite.measures.batches import average_batches, batch_anisotropy, split_batches

PRODUCTS = 1e-6
"""Relative: float32 products of differences from the mean."""


def vectors(rows: int = 3000, dim: int = 24) -> torch.Tensor:
    made = torch.randn(rows, dim, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.5, 3, dim)
    made[:, 7] += 3000
    made[:: rows // 20] *= 150
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_anisotropy_of_a_batch(dtype: torch.dtype) -> None:
    x = vectors().to(dtype)
    assert batch_anisotropy(x) == pytest.approx(
        oracles.spectral(x.double().numpy())["anisotropy_svd"], rel=PRODUCTS
    )


def test_an_offset_that_float32_second_moments_lose() -> None:
    x = torch.randn(2000, 12, generator=torch.Generator().manual_seed(1)) + 3000
    true = oracles.spectral(x.double().numpy())["anisotropy_svd"]
    assert batch_anisotropy(x) == pytest.approx(true, rel=PRODUCTS)
    mean = x.mean(0)
    raw = (x.T @ x / len(x) - torch.outer(mean, mean)).double().numpy()
    values = np.linalg.eigvalsh(raw)
    assert abs(values[-1] / values.sum() - true) > 100 * PRODUCTS * true


def test_huge_vectors_do_not_overflow() -> None:
    x = torch.randn(500, 6, generator=torch.Generator().manual_seed(1))
    assert batch_anisotropy(x * 1e30) == pytest.approx(batch_anisotropy(x), rel=1e-5)


def test_fewer_vectors_than_coordinates() -> None:
    x = torch.randn(40, 300, generator=torch.Generator().manual_seed(3)) + 5
    centred = x.double().numpy() - x.double().numpy().mean(axis=0)
    squares = np.linalg.svd(centred, compute_uv=False) ** 2
    assert batch_anisotropy(x) == pytest.approx(squares[0] / squares.sum(), rel=PRODUCTS)


def test_an_isotropic_gaussian() -> None:
    """(1 + sqrt(dim/n))^2 / dim; the largest eigenvalue fluctuates by about n^(-2/3)."""
    x = torch.randn(4096, 64, generator=torch.Generator().manual_seed(2))
    assert batch_anisotropy(x) == pytest.approx((1 + math.sqrt(64 / 4096)) ** 2 / 64, rel=0.03)


def test_equal_vectors_have_no_anisotropy() -> None:
    assert math.isnan(batch_anisotropy(torch.ones(10, 4)))


@pytest.mark.parametrize(("n", "count"), [(0, 0), (4095, 0), (4096, 1), (8191, 1), (8192, 2), (20_000, 4)])
def test_batches_hold_everything_once_and_4096_at_least(n: int, count: int) -> None:
    found = split_batches(n)
    sizes = [part.stop - part.start for part in found]
    assert len(found) == count
    assert all(4096 <= size < 8192 for size in sizes)
    assert not found or (found[0].start, found[-1].stop, sum(sizes)) == (0, n, n)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_mean_and_spread() -> None:
    values = [1.5, 2.5, 4.0]
    found = average_batches(values)
    assert (found.mean, found.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert math.isnan(average_batches([1.0]).sd)
    assert math.isnan(average_batches([]).mean)
