"""TwoNN on a GPU gives the same result as on the CPU, whatever the vectors are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from theodolite.measures.cuda import distance_bounds
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.measures.neighbours import two_nearest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
EXACT = 1e-9
"""On distances, relative: both end in float64 subtraction, of other orders of summation."""


def cloud(n: int, dim: int, dimension: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    basis = torch.randn(dimension, dim, generator=random)
    return torch.randn(n, dimension, generator=random) @ basis + 0.05 * torch.randn(n, dim, generator=random)


def offset(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, -1] += 3000
    return x


def massive(x: Tensor) -> Tensor:
    x = x.clone()
    x[::40] *= 150
    return x


def repeated(x: Tensor) -> Tensor:
    return torch.cat([x, x[: len(x) // 10]])


CASES = {"plain": lambda x: x, "offset": offset, "massive": massive, "repeated": repeated}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("n", "dim"), [(9, 3), (5000, 64), (4096, 768), (9001, 576)])
def test_the_same_as_on_the_cpu(case: str, n: int, dim: int, dtype: torch.dtype) -> None:
    x = CASES[case](cloud(n, dim, min(10, dim))).to(dtype)
    on_cpu, on_device = twonn(x), twonn(x.cuda())
    assert on_device.n == on_cpu.n
    assert on_device.duplicates == on_cpu.duplicates
    assert on_device.keep90 == pytest.approx(on_cpu.keep90, rel=EXACT, nan_ok=True)
    assert on_device.ml == pytest.approx(on_cpu.ml, rel=EXACT, nan_ok=True)


@pytest.mark.parametrize("case", ["plain", "offset", "massive"])
def test_distances_are_those_of_subtraction(case: str) -> None:
    x = CASES[case](cloud(3000, 96, 12)).cuda()
    exact = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    nearest = exact.fill_diagonal_(torch.inf).topk(2, largest=False).values
    assert torch.allclose(two_nearest(x), nearest, rtol=EXACT, atol=0)
    # The tempting way: squared norms and a product, uncentred, in float32.
    tempting = torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    wrong = tempting.topk(2, largest=False).values.double()
    if case == "offset":
        assert not torch.allclose(wrong, nearest, rtol=1e-4)


@pytest.mark.skipif(torch.version.cuda is None, reason="requires matrix units")
def test_bounds_are_below_the_distances() -> None:
    x = cloud(4500, 300, 20).cuda()
    norms = x.double().square().sum(1)
    shrunk = (norms * (1 - distance_bounds.cuda_slack(300))).float()
    bounds, others = distance_bounds.smallest_bounds(x, shrunk)
    assert distance_bounds.is_supported(x)
    rows = torch.arange(len(x), device="cuda")[:, None]
    assert (others != rows).all()
    true = (x.double()[rows] - x.double()[others]).square().sum(-1)
    assert (bounds.double() <= true).all()
    assert (bounds[:, 1:] >= bounds[:, :-1]).all()
