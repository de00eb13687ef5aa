"""Nearest neighbours against all distances in float64, on clouds that float32 cannot resolve."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from tests.measures.test_twonn import EXACT, HARD, cloud, distinct_rows, random
from tests.shared import slow
from torch import Tensor

from theodolite.measures import neighbours
from theodolite.measures.intrinsic_dimension import twonn, twonn_from_distances
from theodolite.measures.neighbours import neighbourhood, two_nearest

BELIEVED = 5e-4
"""Relative: half of what rounding may move a believed squared distance by."""


def all_distances(vectors: Tensor) -> Tensor:
    distances = torch.from_numpy(cdist(vectors.double(), vectors.double()))
    return distances.fill_diagonal_(torch.inf)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("block", [slow(2048), 512])
def test_distances_and_names(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of 512, no more than 8 candidates are taken of each: what is missed must be noticed."""
    monkeypatch.setattr(neighbours, "_BLOCK", block)
    vectors = HARD[name]()
    found, every = neighbourhood(vectors), all_distances(vectors)
    expected = every.topk(found.k, largest=False).values
    torch.testing.assert_close(found.distances, expected, rtol=BELIEVED, atol=0)
    torch.testing.assert_close(found.distances[:, :2], expected[:, :2], rtol=EXACT, atol=0)
    torch.testing.assert_close(every.gather(1, found.others), expected, rtol=BELIEVED, atol=0)  # ties aside, names
    assert (found.distances.diff(dim=1) >= 0).all()
    assert all(len(set(row)) == found.k for row in found.others[:50].tolist())


@pytest.mark.parametrize("name", HARD)
def test_twonn_is_equal_bit_for_bit(name: str) -> None:
    vectors = HARD[name]()
    found = neighbourhood(vectors)
    assert torch.equal(found.distances[:, :2], two_nearest(vectors))
    assert repr(twonn_from_distances(found.distances[:, :2], found.duplicates)) == repr(twonn(vectors))


def test_one_block_holds_all_the_nearest() -> None:
    """The tempting shortcut, to trust a few candidates per block, misses some; the bound detects it."""
    near = cloud(60, d=5) * 1e-2
    vectors = torch.cat([near, cloud(2400, d=5, seed=3) + 20])
    found = neighbourhood(vectors)
    expected = all_distances(vectors).topk(32, largest=False).values
    torch.testing.assert_close(found.distances, expected, rtol=BELIEVED, atol=0)


@pytest.mark.parametrize("name", ["an offset coordinate at 3,000", "clusters far apart"])
def test_plain_float32_is_wrong(name: str) -> None:
    single = HARD[name]().float()
    distances = torch.cdist(single, single, compute_mode="use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    expected = all_distances(HARD[name]()).topk(32, largest=False).values
    assert float((distances.topk(32, largest=False).values / expected - 1).abs().max()) > 10 * BELIEVED


@given(
    n=st.integers(3, 60),
    dim=st.integers(1, 6),
    levels=st.integers(2, 1000),
    exponents=st.lists(st.integers(-60, 60), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
)
def test_any_cloud(n: int, dim: int, levels: int, exponents: list[int], seed: int) -> None:
    scales = torch.tensor(exponents).double().exp2()
    grid = torch.randint(-levels, levels, (n, dim), generator=random(seed)).double()
    vectors = distinct_rows(grid * scales[torch.arange(n) % len(scales), None])
    found = neighbourhood(vectors)
    if len(vectors) < 3:
        assert found.k == 0
        return
    expected = all_distances(vectors).topk(min(32, len(vectors) - 1), largest=False).values
    torch.testing.assert_close(found.distances, expected, rtol=BELIEVED, atol=0)


def test_duplicates_and_equal_contexts_are_dropped_and_counted() -> None:
    vectors = cloud(300)
    repeated = torch.cat([vectors, vectors[:30], vectors[:20] + 1e-6])
    contexts = torch.cat([torch.arange(330), torch.arange(20)])
    found = neighbourhood(repeated, contexts=contexts)
    assert (len(found), found.duplicates) == (300, 50)
    assert torch.equal(found.others, neighbourhood(vectors).others)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_have_no_neighbours(n: int) -> None:
    found = neighbourhood(cloud(5)[:n])
    assert (len(found), found.k) == (n, 0)
