"""Each kernel of the measures equals the formula that it replaces.

Runs on a GPU, and on the CPU with TRITON_INTERPRET=1 (`make test-kernels`). Kernels for changes of eigenproblems
are tested in test_rank_one.py, those of the fold in tests/statistics/cuda.
"""

from __future__ import annotations

import pytest
import torch
from tests.devices import KERNELS_ON_CPU, KERNELS_ON_GPU
from torch import Tensor

from theodolite.measures import spectrum
from theodolite.measures.cuda import lanczos, pairs, unit_reductions

FLOAT64 = 1e-13
"""Relative: both are float64 sums of at most 300 terms, in another order."""
KERNELS = [pytest.param("cpu", marks=KERNELS_ON_CPU), pytest.param("cuda", marks=KERNELS_ON_GPU)]
pytestmark = pytest.mark.parametrize("device", KERNELS)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.cpu(), expected, rtol=FLOAT64, atol=FLOAT64 * float(expected.abs().max()))


@pytest.mark.parametrize("points", [1, 3, 4])
@pytest.mark.parametrize(("units", "dim"), [(1, 5), (21, 300), (16, 256)])
@pytest.mark.parametrize("selected", [False, True])
def test_distances_of_units_from_points(device: str, units: int, dim: int, points: int, selected: bool) -> None:
    total, centres = 3000 + normal(units, dim), 2990 + normal(points, dim, seed=1)
    counts = torch.arange(1, units + 1)
    total *= counts[:, None]
    rows = torch.arange(units - 1, -1, -2) if selected else None
    used, n = (total, counts) if rows is None else (total[rows], counts[rows])
    expected = torch.stack([(used / n[:, None] - point).square().sum(1) for point in centres])
    found = unit_reductions.squared_distances(
        n.to(device), total.to(device), centres.to(device), None if rows is None else rows.to(device)
    )
    assert_close(found, expected)


@pytest.mark.parametrize(("units", "dim"), [(1, 5), (300, 130)])
def test_spread_of_the_means_of_units(device: str, units: int, dim: int) -> None:
    counts, total, middle = torch.arange(1, units + 1), normal(units, dim), normal(dim, seed=1)
    weights = counts / counts.sum().double()
    expected = (weights[:, None] * (total / counts[:, None] - middle).square()).sum(0)
    given = (part.to(device) for part in (counts, weights, total, middle))
    assert_close(unit_reductions.spread_of_means(*given), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_distances_of_pairs(device: str, dtype: torch.dtype) -> None:
    vectors = normal(40, 1100, dtype=dtype)
    vectors[:, 7] += 3000  # the difference of squares would lose seven digits
    left, right = torch.arange(30), torch.arange(30).flip(0) + 10
    scale = torch.tensor(1e3, dtype=torch.float64)
    expected = ((vectors[left].double() - vectors[right].double()) / scale).square().sum(1)
    found = pairs.squared_distances(*(part.to(device) for part in (vectors, scale, left, right)))
    assert_close(found, expected)


@pytest.mark.parametrize("dim", [40, 300])
def test_steps_of_lanczos(device: str, dim: int) -> None:
    steps = 35
    matrix = normal(dim, dim)
    matrix = matrix @ matrix.T
    start = torch.nn.functional.normalize(normal(dim, seed=1), dim=0)
    results = []
    for place, extend in (("cpu", spectrum._extend), (device, lanczos.extend)):
        basis = torch.zeros(steps + 1, dim, dtype=torch.float64, device=place)
        found = torch.zeros(2, steps, dtype=torch.float64, device=place)
        basis[0] = start.to(place)
        for known in range(1, steps + 1):
            extend(basis, torch.mv(matrix.to(place), basis[known - 1]), found, known)
        results.append((basis.cpu(), found.cpu()))
    (expected, theirs), (basis, found) = results
    torch.testing.assert_close(found, theirs, rtol=1e-9, atol=1e-9 * float(theirs.max()))
    torch.testing.assert_close(basis @ basis.T, torch.eye(steps + 1).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(basis[:10], expected[:10], rtol=0, atol=1e-9)  # rounding grows with the steps


def test_the_largest_eigenvalue(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL_MATRIX", "SMALL_ON_GPU"):
        monkeypatch.setattr(spectrum, name, 100)
    matrix = normal(150, 150)
    matrix = matrix @ matrix.T
    expected = float(torch.linalg.eigvalsh(matrix)[-1])
    assert spectrum.largest_eigenvalue(matrix.to(device)) == pytest.approx(expected, rel=1e-9)
