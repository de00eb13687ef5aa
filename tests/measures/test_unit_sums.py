"""Passes over sums by unit, as an array and as a tensor on any device, against the definitions in wide floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.oracles import wide

from theodolite.measures import unit_sums
from theodolite.measures.coordinates import between
from theodolite.measures.cosine import partition_isotropy_log
from theodolite.measures.decomposition import decomposition, decompositions, unit_moments
from theodolite.measures.unit_sums import Sums, spread_of_means, squared_distances, sum_units

Array = NDArray[np.float64]
FLOAT64 = 1e-12
"""Relative: float64 sums of 300 numbers of one size, about a near centre."""
UNITS, DIM = 300, 24
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def on_cuda(total: Array) -> Sums:
    return torch.from_numpy(total).cuda()


PLACES = [
    pytest.param(lambda total: total, id="array"),
    pytest.param(torch.from_numpy, id="tensor"),
    pytest.param(on_cuda, id="cuda", marks=[pytest.mark.gpu, NO_GPU]),
]
Put = Callable[[Array], Sums]


class Made:
    """Units with one coordinate at 3,000, one unit 150 times as long, one met once, as sums about a centre."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n = rng.geometric(0.02, size=UNITS)
        self.n[5] = 1
        self.means = rng.normal(0, 1, (UNITS, DIM))
        self.means[7] *= 150
        self.centre = np.zeros(DIM)
        self.centre[3] = 3000.0
        self.total = self.means * self.n[:, None]
        self.v = rng.gamma(4, 1, UNITS)
        self.squares = self.n * (np.square(self.means).sum(1) + self.v)

    def distances(self, point: Array) -> Array:
        return (np.square(wide(self.total) / wide(self.n)[:, None] - wide(point)).sum(1)).astype(np.float64)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that 300 units are many blocks, the last not full."""
    monkeypatch.setattr(unit_sums, "BLOCK", 64)
    monkeypatch.setattr(unit_sums, "DEVICE_BLOCK", 128)


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize(
    "rows", [None, np.arange(3, 290), np.array([250, 7, 31]), np.arange(0)], ids=["all", "most", "few", "none"]
)
def test_sums_and_distances_are_those_of_the_definition(put: Put, rows: NDArray[np.int64] | None) -> None:
    made = Made()
    total, chosen = put(made.total), np.arange(UNITS) if rows is None else rows
    assert sum_units(total, rows) == pytest.approx(made.total[chosen].sum(axis=0), rel=FLOAT64, abs=1e-9)
    points = np.zeros(DIM), -made.centre, made.means[7]
    found = squared_distances(made.n[chosen], total, *points, rows=rows)
    for values, point in zip(found, points, strict=True):
        assert values == pytest.approx(made.distances(point)[chosen], rel=FLOAT64, abs=1e-9)


def test_some_rows_of_an_array_add_up_as_their_copy_does() -> None:
    """Bit for bit: no copy is made of sums that may fill the memory, and nothing is to depend on that."""
    made, rows = Made(), np.arange(1, UNITS)
    assert (sum_units(made.total, rows) == made.total[rows].sum(axis=0)).all()
    few = rows[::3]
    for some in (rows, few):
        (found,) = squared_distances(made.n[some], made.total, made.centre, rows=some)
        assert (found == squared_distances(made.n[some], made.total[some], made.centre)[0]).all()


@pytest.mark.parametrize("put", PLACES)
def test_the_spread_of_means_by_coordinate(put: Put) -> None:
    made = Made()
    share = wide(made.n) / made.n.sum()
    mean = (share[:, None] * wide(made.means)).sum(0)
    expected = (share[:, None] * np.square(wide(made.means) - mean)).sum(0).astype(np.float64)
    assert spread_of_means(made.n, put(made.total), mean.astype(np.float64)) == pytest.approx(
        expected, rel=FLOAT64
    )
    assert between(made.n, put(made.total)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("put", PLACES)
def test_formulas_give_the_same_on_every_device(put: Put) -> None:
    made = Made()
    on_cpu, on_device = (
        unit_moments(made.n, total, made.squares, made.centre) for total in (made.total, put(made.total))
    )
    for ours, theirs in zip(on_cpu, on_device, strict=True):
        assert theirs == pytest.approx(ours, rel=FLOAT64, abs=1e-9)
    rows = np.arange(10, UNITS)
    every = decomposition(made.n, made.total, made.squares, made.centre, made.v)
    some = decomposition(made.n[rows], made.total[rows], made.squares[rows], made.centre, made.v[rows])
    sets: list[Any] = [None, rows]
    theirs = decompositions(made.n, put(made.total), made.centre, made.v, sets, [None, None])
    assert theirs[0] == pytest.approx(every, rel=FLOAT64)
    assert theirs[1] == pytest.approx(some, rel=FLOAT64)


def test_float32_would_lose_what_is_between_units() -> None:
    """The tempting way to be quick on a device, means about 0 in float32: at 3,000 nothing is left of V_B = 1."""
    made = Made()
    made.means[7], made.total[7] = 0, 0  # the long one, whose own spread would cover it
    made.means[7], made.total[7] = 0, 0  # the long one, whose own spread would cover it
    share, x = made.n / made.n.sum(), (made.means + made.centre).astype(np.float32)
    naive = share @ np.square(x) - np.square(share.astype(np.float32) @ x)
    expected = between(made.n, made.total)
    assert abs(naive[3] / expected[3] - 1) > 0.01
    assert between(made.n, torch.from_numpy(made.total))[3] == pytest.approx(expected[3], rel=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])])
@pytest.mark.parametrize("length", [1.0, 20_000.0])
def test_the_partition_function_of_a_tensor_is_that_of_its_array(
    dtype: torch.dtype, device: str, length: float
) -> None:
    random = torch.Generator().manual_seed(0)
    x = (length * torch.randn(200, DIM, generator=random)).to(dtype)
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0]
    expected = partition_isotropy_log(x.double().numpy(), directions)
    assert partition_isotropy_log(x.to(device), directions) == pytest.approx(expected, rel=FLOAT64)
    assert np.isnan(partition_isotropy_log(x[:0].to(device), directions))
