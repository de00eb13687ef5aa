"""Hubness against counting, and on clouds that have hubs or none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import skew
from tests.measures.test_twonn import cloud, random

from theodolite.measures.intrinsic_dimension import hubness
from theodolite.measures.neighbours import neighbourhood


def occurrences(x: np.ndarray, k: int) -> list[int]:
    """The number of rows that have each row among their k nearest neighbours."""
    distances = cdist(x, x)
    counts = [0] * len(x)
    for row in range(len(x)):
        nearest = sorted((distance, other) for other, distance in enumerate(distances[row]) if other != row)
        for _, other in nearest[:k]:
            counts[other] += 1
    return counts


@pytest.mark.parametrize("k", [1, 5, 10])
def test_the_definition(k: int) -> None:
    vectors = cloud(200, d=12)
    counts = occurrences(vectors.double().numpy(), k)
    found = hubness(neighbourhood(vectors).others, k)
    assert found.value == pytest.approx(skew(counts), rel=1e-10)
    without = [skew(counts[:i] + counts[i + 1 :]) for i in range(200)]
    assert found.se == pytest.approx(np.sqrt(199 * np.var(without)), rel=1e-8)


def test_a_ring_has_no_hubs() -> None:
    """Every point of a ring is among the 10 nearest of exactly 10 others."""
    others = torch.stack([(torch.arange(100) + step) % 100 for step in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)], 1)
    assert hubness(others).reason == "every vector is among the 10 nearest of equally many"
    assert np.isnan(hubness(others).value)


def test_high_dimensions_have_hubs_and_low_ones_have_none() -> None:
    made = {
        d: hubness(neighbourhood(torch.randn(1000, d, generator=random(), dtype=torch.float64)).others)
        for d in (2, 50)
    }
    assert abs(made[2].value) < 1
    assert made[50].value > 3


def test_too_few() -> None:
    assert (
        hubness(neighbourhood(cloud(10)).others).reason == "10 distinct vectors, and the 10 nearest others need 11"
    )
